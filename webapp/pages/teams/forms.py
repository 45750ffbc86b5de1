from typing import Any

from django import forms


class QuotaForm(forms.Form):
    """As a person fills it in. What the numbers mean together, and whose they are, the service says."""

    gpu_type = forms.CharField(max_length=60)
    guaranteed = forms.IntegerField()
    maximum = forms.IntegerField()
    queue_beyond = forms.BooleanField(required=False)
    # Absent for a type that had no quota when the page was made.
    version = forms.IntegerField(required=False, min_value=0)
    reason = forms.CharField(required=False, max_length=500)

    def changes(self) -> dict[str, Any]:
        """The arguments of services.edit_quota."""
        values = dict(self.cleaned_data)
        cause = values.pop("reason")
        return {**values, "version": values["version"] or 0, "cause": cause}

    def sentence(self) -> str:
        return " ".join(
            f"{field.replace('_', ' ').capitalize()}: {errors[0]}" for field, errors in self.errors.items()
        )
