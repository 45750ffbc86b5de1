"""Forms of the administration pages. What the numbers mean together the services say."""

from django import forms

from webapp.accounts.models import Role

MICRO = 1_000_000


class UserForm(forms.Form):
    username = forms.CharField(max_length=150)
    full_name = forms.CharField(max_length=300, required=False)
    email = forms.EmailField(required=False, label="E-mail")
    is_admin = forms.BooleanField(required=False)
    team = forms.SlugField(max_length=60, required=False)
    role = forms.ChoiceField(choices=Role.choices, required=False, initial=Role.MEMBER)

    def clean_role(self) -> Role:
        return Role(self.cleaned_data["role"] or Role.MEMBER)


class TeamForm(forms.Form):
    name = forms.CharField(max_length=120)
    weight = forms.IntegerField()
    department = forms.SlugField(max_length=60, required=False, empty_value=None)


class NewTeamForm(TeamForm):
    slug = forms.SlugField(max_length=60, label="Short name")


class DepartmentForm(forms.Form):
    name = forms.CharField(max_length=120)
    weight = forms.IntegerField()
    parent = forms.SlugField(max_length=60, required=False, empty_value=None)


class NewDepartmentForm(DepartmentForm):
    slug = forms.SlugField(max_length=60, label="Short name")


class PriceForm(forms.Form):
    gpu_type = forms.CharField(max_length=60, label="GPU type")
    dollars = forms.DecimalField(min_value=0, max_value=MICRO, decimal_places=6, label="Price")
