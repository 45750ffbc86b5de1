"""What made the version in production, and with which data it would be made again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from platform_core.datasets.access import Use
from platform_core.errors import TrainmasterError
from platform_core.jobs import spec as job_specs
from platform_core.jobs.definition import JobSpec
from webapp.datasets import queries as datasets
from webapp.jobs import queries as jobs

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion


@dataclass(frozen=True, slots=True)
class Recipe:
    job_id: str  # whose specification it is
    spec: JobSpec  # with the newest data that it may use
    new_data: bool

    @property
    def gpu_ms(self) -> int:
        """The most that the job may need."""
        return self.spec.num_gpus * self.spec.max_runtime_ms


def of(version: ModelVersion) -> Recipe:
    """Raises request_invalid where nobody knows how the version was made."""
    job = jobs.find(version.job_id) if version.job_id else None
    if job is None:
        why = f"no job of this platform made {version}, so there is no recipe to train it again"
        raise TrainmasterError("request_invalid", what=f"the recipe of {version}", why=why)
    spec = job_specs.restore(job.spec)
    newest = _newest(spec)
    return Recipe(job.id, replace(spec, dataset=newest), newest != spec.dataset)


def _newest(spec: JobSpec) -> str:
    """The newest version of its dataset that the job may use; its own where none is approved, or newer."""
    row = datasets.snapshot(spec.dataset) if spec.dataset else None
    if row is None:
        return spec.dataset
    use = Use(spec.team, spec.project, spec.purpose)
    newer = (one for one in datasets.versions(row.team_id, row.name) if one.version > row.version)
    return next((one.id for one in newer if not datasets.why_not(one, use)), row.id)
