"""What a job would meet if it were submitted now. Nothing is kept."""

from collections.abc import Mapping
from typing import Any

from platform_core.jobs.spec import JobSpec, parse
from platform_core.quotas.admission import Refused
from webapp.accounts.permissions import Actor
from webapp.jobs import services
from webapp.quotas import queries as quotas


def allowed(actor: Actor, mapping: Mapping[str, Any]) -> JobSpec:
    """Raises what a submission would, quotas apart."""
    spec = parse(mapping)
    services.check_permissions(actor, spec)
    services.check_references(spec)
    return spec


def refusal(spec: JobSpec, queued: int) -> str:
    """The quota's sentence, or "" where it would be let in."""
    decision = quotas.would_admit(spec.team, spec.gpu_type, spec.num_gpus, queued)
    return decision.sentence if isinstance(decision, Refused) else ""
