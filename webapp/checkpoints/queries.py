from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import JSONObject

from platform_core.checkpointing.habit import Losses
from platform_core.checkpointing.live import LiveInterval, Measured
from platform_core.errors import TrainmasterError
from platform_core.jobs.states import TERMINAL
from platform_core.lineage.graph import Kind
from platform_core.node.wanted import ArtifactReference
from webapp.artifacts import queries as artifacts
from webapp.checkpoints.models import Checkpoint, SaveOrders
from webapp.recalls import queries as recalls


def reference(checkpoint_id: str) -> ArtifactReference:
    """How an agent fetches a checkpoint. Raises not_found, and request_invalid where it was recalled."""
    if why := recalls.why(Kind.CHECKPOINT, checkpoint_id):
        raise TrainmasterError("request_invalid", what=f"checkpoint {checkpoint_id}", why=why)
    manifest_id = Checkpoint.objects.filter(id=checkpoint_id).values_list("manifest_id", flat=True).first()
    return artifacts.reference(manifest_id or f"of checkpoint {checkpoint_id}")


def names(checkpoint_ids: Iterable[str]) -> dict[str, str]:
    """Checkpoint id → "bytelm-slow-rate, step 100", in one query; unknown ids are left out."""
    rows = Checkpoint.objects.filter(id__in=set(checkpoint_ids)).values_list("id", "job__name", "step")
    return {key: f"{job}, step {step:,}" for key, job, step in rows}


def name_of(manifest_id: str) -> str:
    """What the newest checkpoint with these bytes is called; "" where they are of none."""
    rows = Checkpoint.objects.filter(manifest=manifest_id).order_by("-saved_ms")
    job, step = rows.values_list("job__name", "step").first() or ("", 0)
    return f"{job}, step {step:,}" if job else ""


def origin() -> Subquery:
    """The JSON {project, owner} of the newest job of a team that saved a manifest as a checkpoint."""
    rows = Checkpoint.objects.filter(manifest=OuterRef("id"), job__team=OuterRef("teams"))
    origins = rows.order_by("-saved_ms").values(
        origin=JSONObject(project="job__project", owner="job__user__username")
    )
    return Subquery(origins[:1])


def of_job(job_id: str) -> list[Checkpoint]:
    rows = with_recalls(Checkpoint.objects.filter(job=job_id))
    return list(rows.select_related("manifest").order_by("-step", "-attempt"))


def with_recalls(rows: QuerySet[Checkpoint]) -> QuerySet[Checkpoint]:
    """The rows with `recalled`, in the same query."""
    found = {
        "recalled": recalls.is_marked(Kind.CHECKPOINT, "id")
    }  # declared by the model, so not by its name here
    return rows.annotate(**found)


def find(checkpoint_id: str) -> Checkpoint | None:
    return Checkpoint.objects.select_related("job__user", "manifest").filter(id=checkpoint_id).first()


def living(**of: Any) -> QuerySet[Checkpoint]:
    """Those that can be restored, as far as anybody knows, and that nobody has recalled."""
    rows = Checkpoint.objects.filter(**of, deleted_ms=None, damaged="")
    return rows.exclude(id__in=recalls.marked(Kind.CHECKPOINT)).exclude(job__in=recalls.marked(Kind.RUN))


def kept() -> QuerySet[Checkpoint]:
    """Those whose files are in the store."""
    return Checkpoint.objects.filter(deleted_ms=None)


def resting(before_ms: int) -> Q:
    """Of manifests: those of checkpoints in the store whose jobs ended before then, where nobody found damage."""
    rows = kept().filter(manifest=OuterRef("id"))
    young = rows.exclude(job__state__in=list(TERMINAL), job__finished_ms__lt=before_ms) | rows.exclude(
        damaged=""
    )
    return Q(Exists(rows), ~Exists(young), kind="checkpoint")


def exists(checkpoint_id: str, team: str) -> bool:
    return living(job__team=team).filter(id=checkpoint_id).exists()


def newest(teams: Iterable[str], limit: int) -> list[Checkpoint]:
    rows = living(job__team__in=list(teams)).select_related("job")
    return list(rows.order_by("-saved_ms")[:limit])


def orders(job_id: str) -> SaveOrders | None:
    """What the running script of a job is told; None: nothing yet."""
    return SaveOrders.objects.filter(job=job_id).first()


def orders_of(job_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Job id → (the order to save that waits for its checkpoint, or 0; the interval of the platform, or 0)."""
    rows = SaveOrders.objects.filter(job__in=set(job_ids))
    return {
        job: (0 if answer else order, interval_ms)
        for job, order, answer, interval_ms in rows.values_list(
            "job_id", "save_order", "answer", "interval_ms"
        )
    }


@dataclass(frozen=True, slots=True)
class SetInterval:
    """The interval that the platform has set for a job, and what it was computed from."""

    measured: Measured
    live: LiveInterval


def interval(row: SaveOrders | None) -> SetInterval | None:
    """None while the spec or the script says how often."""
    if row is None or not row.interval_ms:
        return None
    measured = row.interval_basis["measured"]
    return SetInterval(
        Measured(**{**measured, "losses": Losses(**measured["losses"])}),
        LiveInterval(**row.interval_basis["live"]),
    )


def savers(*, jobs: Iterable[str] = (), checkpoints: Iterable[str] = ()) -> list[tuple[str, str]]:
    """(job, checkpoint) of all that these jobs saved, and of these checkpoints."""
    rows = Checkpoint.objects.filter(Q(job__in=list(jobs)) | Q(id__in=list(checkpoints)))
    return list(rows.values_list("job_id", "id"))


def rows_of(checkpoint_ids: Iterable[str]) -> list[Checkpoint]:
    return list(Checkpoint.objects.filter(id__in=list(checkpoint_ids)).select_related("job__user"))
