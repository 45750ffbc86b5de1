from django import forms

from webapp.nodes.enrolment import MAX_HOURS


class BootstrapTokenForm(forms.Form):
    name = forms.CharField(max_length=80)
    hours = forms.IntegerField(min_value=1, max_value=MAX_HOURS)
