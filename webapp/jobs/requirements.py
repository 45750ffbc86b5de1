"""What a specification names must exist in its team, and be approved for its use."""

from __future__ import annotations

from platform_core.datasets.access import Use
from platform_core.jobs.kind import JobKind
from platform_core.jobs.script import missing_script
from platform_core.jobs.spec import JobSpec, Problem, SpecError
from webapp.accounts import queries as accounts
from webapp.artifacts import queries as artifacts
from webapp.datasets import queries as datasets


def check_references(spec: JobSpec) -> None:
    """What a specification names must exist in its team. Raises SpecError with a sentence for each that does not."""
    problems = []
    if spec.code and not artifacts.manifest_exists(spec.code, spec.team, "code"):
        problems.append(Problem("code", f"The team has no code bundle {spec.code}; upload it first."))
    elif spec.code and (missing := missing_script(spec.command, artifacts.paths(spec.code))):
        problems.append(Problem("command", missing))
    if spec.dataset:
        problems += _problems_of_dataset(spec)
    if spec.kind is JobKind.TRAINING and (why := artifacts.why_no_new_checkpoints(spec.team)):
        problems.append(Problem("team", why))
    problems += [
        Problem("secrets", f"The team has no secret {name}; a lead can add it on the team's page.")
        for name in spec.secrets
        if name not in accounts.secret_names(spec.team)
    ]
    if problems:
        raise SpecError(tuple(problems))


def _problems_of_dataset(spec: JobSpec) -> list[Problem]:
    """A version of another team that nobody has let this team know of does not exist for it."""
    snapshot = datasets.snapshot(spec.dataset)
    if snapshot is None or not datasets.is_known_to(spec.team, snapshot):
        return [Problem("dataset", f"The team has no dataset snapshot {spec.dataset}.")]
    if why := datasets.why_not(snapshot, Use(spec.team, spec.project, spec.purpose)):
        sentence = f"The snapshot {snapshot.name} version {snapshot.version} cannot be used: {why}."
        return [Problem("purpose", sentence)]
    if spec.mount_dataset and (why := datasets.why_not_mounted(snapshot)):
        return [Problem("mount_dataset", f"Dataset {snapshot.name} cannot be read where it lies: {why}.")]
    return []
