"""Mails to the person as whom a cycle acts: where it needs an approval, and where it did not come to its end."""

from __future__ import annotations

from django.conf import settings
from django.urls import reverse

from platform_core.retraining.cycle import ASKS, DESCRIPTION, ENDED, SUCCEEDED, CycleState
from webapp.accounts import mailing
from webapp.accounts.mailing import Kind, Letter
from webapp.retraining.models import Cycle

SUBJECTS = {
    CycleState.REQUESTED: "the retraining of {model} needs an approval",
    CycleState.PROVEN: "the canary of {model} needs an approval",
    CycleState.REFUSED: "the retrained {model} did not pass its gate",
    CycleState.ROLLED_BACK: "the retrained {model} was rolled back",
    CycleState.FAILED: "the retraining of {model} failed",
}


def tell(row: Cycle) -> None:
    """Belongs in the transaction of the step. It quotes nothing that a script wrote."""
    state = CycleState(row.state)
    if state not in (ASKS | ENDED) - SUCCEEDED or state not in SUBJECTS:
        return
    page = f"{settings.PUBLIC_URL}{reverse('retraining:detail', args=[row.model.team_id, row.model.name])}"
    text = f"{row.model}, retraining {row.id}\n\nBegun because {row.cause}. {DESCRIPTION[state]}\n\n{page}\n"
    subject = f"Trainmaster: {SUBJECTS[state].format(model=row.model.name)}"
    key = f"retraining:{row.id}:{state.value}"
    mailing.write([Letter(key, row.author_id, row.model.team_id, Kind.FAILURES, subject, text)])
