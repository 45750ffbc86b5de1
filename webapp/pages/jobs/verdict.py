"""What the platform thinks of a job that is being described: refused, incomplete, waiting or starting, and its cost."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.jobs.script import missing_script
from platform_core.jobs.spec import FIELDS, JobSpec, SpecError, parse
from platform_core.units import HOUR_MS, plural
from webapp.accounts.permissions import Actor
from webapp.base.identity import new_id
from webapp.jobs import queries
from webapp.pages.jobs import forms, presentation
from webapp.pages.wording import slot_noun
from webapp.quotas import queries as quotas
from webapp.scheduling import dry_run

_MOST_GPUS = 10_000


@dataclass(frozen=True, slots=True)
class QuotaLeft:
    unit: str
    held: int
    pending: int
    asked: int
    left: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """`problems` are sentences by the names of the controls."""

    state: str  # ok, wait, bad, or open where only fields are missing
    headline: str
    problems: Mapping[str, str]
    cost_hour: int  # micro-dollars
    key: str  # another at each answer, so that the outlook is asked for again
    cost_limit: int | None = None  # micro-dollars, if it runs until its time limit
    waits: str = ""
    quota: QuotaLeft | None = None


def judge(actor: Actor, mapping: Mapping[str, Any], form: Mapping[str, str]) -> Verdict:
    cost_hour = presentation.cost_per_hour(form.get("gpu_type", ""), _gpus(mapping))
    verdict = Verdict("bad", "It would be refused", {}, cost_hour, new_id("ask"))
    try:
        spec = dry_run.allowed(actor, parse(mapping, forms.quoted(form.get("gpu_type", ""))))
    except SpecError as error:
        problems = {problem.field: problem.sentence for problem in error.problems}
        state, headline = _incomplete(problems, mapping)
        return replace(verdict, state=state, headline=headline, problems=forms.problems_in_page(problems))
    except TrainmasterError as error:
        return replace(verdict, problems={field_of(error): error.sentence})
    return _forecast(actor, spec, verdict)


def field_of(error: TrainmasterError) -> str:
    """Where a refusal stands that is about more than a field's form."""
    places = {"quota_exceeded": "num_gpus", "priority_too_urgent": "priority"}
    return places.get(error.code, "")


def _incomplete(problems: Mapping[str, str], mapping: Mapping[str, Any]) -> tuple[str, str]:
    """State and headline. A field that nobody has filled in yet is not an error."""
    missing = [
        name for name in problems if name in FIELDS and FIELDS[name].kind.required and name not in mapping
    ]
    if len(missing) < len(problems):
        return "bad", f"{plural(len(problems), 'field')} to correct"
    return "open", f"Still needed: {', '.join(FIELDS[name].label for name in missing)}"


def _forecast(actor: Actor, spec: JobSpec, verdict: Verdict) -> Verdict:
    pending = queries.queued_gpus(spec.team, spec.gpu_type)
    verdict = replace(
        verdict,
        quota=_quota(spec, pending),
        cost_limit=verdict.cost_hour * spec.max_runtime_ms // HOUR_MS,
    )
    if refused := dry_run.refusal(spec, pending):
        return replace(verdict, problems={"num_gpus": refused})
    if missing := "" if spec.code else missing_script(spec.command, None):
        verdict = replace(verdict, headline="It would fail", problems={"command": missing})
    waits = dry_run.why_it_would_wait(spec, actor.username)
    verdict = replace(verdict, waits=queries.calling_by_names([waits], actor.sees)(waits) if waits else "")
    if verdict.problems:
        return verdict
    state, headline = ("wait", "It would wait") if waits else ("ok", "It would start at once")
    return replace(verdict, state=state, headline=headline)


def _quota(spec: JobSpec, pending: int) -> QuotaLeft | None:
    limits = quotas.limits(spec.team, spec.gpu_type)
    if limits is None:
        return None
    held = quotas.held(spec.team, spec.gpu_type)
    unit = slot_noun([spec.gpu_type])
    left = max(0, limits.maximum - held - pending)
    return QuotaLeft(unit, held, pending, spec.num_gpus, left, limits.maximum)


def _gpus(mapping: Mapping[str, Any]) -> int:
    count = mapping.get("num_gpus", 1)
    return count if isinstance(count, int) and 0 < count <= _MOST_GPUS else 0
