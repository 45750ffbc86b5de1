"""Forms of accounts and teams. Whether a name is taken and who may do what, the services decide."""

from typing import Any

from django import forms

from platform_core.errors import TrainmasterError
from webapp.accounts.mailing import Kind
from webapp.accounts.models import Role, Scope, User
from webapp.accounts.tokens import MAX_DAYS


class LoginForm(forms.Form):
    username = forms.CharField(max_length=150)
    password = forms.CharField(strip=False)


class ProfileForm(forms.ModelForm):
    class Meta:
        model = User
        fields = ("first_name", "last_name", "email")


class MailForm(forms.ModelForm):
    class Meta:
        model = User
        fields = tuple(Kind)


class TokenForm(forms.Form):
    name = forms.CharField(max_length=80)
    scope = forms.ChoiceField(choices=Scope.choices, initial=Scope.TEAM, required=False)
    team = forms.SlugField(max_length=60, required=False)
    days = forms.IntegerField(min_value=1, max_value=MAX_DAYS)

    def clean(self) -> dict[str, Any]:
        given = dict(super().clean() or {})
        if given.get("scope") != Scope.ADMIN and not given.get("team"):
            self.add_error("team", "Team is missing.")
        return given


class MemberForm(forms.Form):
    username = forms.CharField(max_length=150)
    role = forms.ChoiceField(choices=Role.choices)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


class SecretForm(forms.Form):
    name = forms.CharField(max_length=80)
    value = forms.CharField(strip=False)


def problems(form: forms.BaseForm) -> dict[str, str]:
    """Field → sentence, as templates/parts/problems.html shows them."""
    return {
        field: " ".join(_sentence(form, field, error) for error in errors)
        for field, errors in form.errors.items()
    }


def _sentence(form: forms.BaseForm, field: str, error: Any) -> str:
    text = str(error)
    if field in form.fields and text == "This field is required.":
        return f"{_label(form, field)} is missing."
    return text


def values(form: forms.Form) -> dict[str, Any]:
    """What was typed in, as values. Raises request_invalid with a sentence for every field that is wrong."""
    if not form.is_valid():
        sentences = (
            sentence if sentence.endswith("is missing.") else f"{_label(form, field)}: {sentence}"
            for field, sentence in problems(form).items()
        )
        raise TrainmasterError("request_invalid", " ".join(sentences))
    return dict(form.cleaned_data)


def _label(form: forms.BaseForm, field: str) -> str:
    return str(form.fields[field].label or field.replace("_", " ").capitalize())
