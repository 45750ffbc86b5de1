"""Forms of the administration pages. What the numbers mean together the services say."""

from typing import Any

from django import forms

from platform_core.errors import TrainmasterError
from webapp.pages.accounts.forms import problems

MICRO = 1_000_000


class UserForm(forms.Form):
    username = forms.CharField(max_length=150)
    full_name = forms.CharField(max_length=300, required=False)
    email = forms.EmailField(required=False, label="E-mail")
    is_admin = forms.BooleanField(required=False)


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


def values(form: forms.Form) -> dict[str, Any]:
    """What was typed in, as values. Raises request_invalid with a sentence for every field that is wrong."""
    if not form.is_valid():
        sentences = (
            sentence if sentence.endswith("is missing.") else f"{_label(form, field)}: {sentence}"
            for field, sentence in problems(form).items()
        )
        raise TrainmasterError("request_invalid", " ".join(sentences))
    return dict(form.cleaned_data)


def _label(form: forms.Form, field: str) -> str:
    return str(form.fields[field].label or field.replace("_", " ").capitalize())
