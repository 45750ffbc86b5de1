"""Jobs as REST shows them."""

from dataclasses import asdict
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from platform_core.jobs.ends import ENDS, EndReason
from platform_core.jobs.states import ACTIVE
from webapp.base.identity import now_ms
from webapp.experiments.queries import mfu_of_job
from webapp.jobs import hangs, layouts
from webapp.jobs.layouts import LaidOut, LaidOutNode
from webapp.jobs.models import Job
from webapp.jobs.pace import remaining_ms
from webapp.rest.enums import DryRunOutcome

JOB_SPEC = {"$ref": "#/components/schemas/JobSpec"}
LINEAGE = {"type": "object", "description": "git commit, diff and folder, as the command line sends them"}
SUBMISSION = {"allOf": [JOB_SPEC, {"type": "object", "properties": {"lineage": LINEAGE}}]}


@extend_schema_field(JOB_SPEC)
class SpecOut(serializers.JSONField):
    """What was submitted, in the fields of a job file."""


class DryRunOut(serializers.Serializer[dict[str, Any]]):
    outcome = serializers.ChoiceField(choices=DryRunOutcome)
    why = serializers.CharField(help_text="Why it would wait or be refused.")
    position = serializers.IntegerField(allow_null=True, help_text="Position in the queue.")
    should_start = serializers.CharField(help_text="When it should start, in words; empty if unknown.")
    changes = serializers.ListField(
        child=serializers.CharField(), help_text="Changes of the job, each of which alone would start it now."
    )


class EndOut(serializers.Serializer[Job]):
    """An end reason: docs/reference/end-reasons.md."""

    reason = serializers.ChoiceField(choices=list(EndReason))
    label = serializers.CharField()  # type: ignore[assignment]
    retried = serializers.BooleanField(
        help_text="An attempt that ends like this is tried again within its budget."
    )
    counts = serializers.ChoiceField(
        choices=["script", "infrastructure", "none"], help_text="The budget of restarts it counts against."
    )
    remedy = serializers.CharField(help_text="What to do.")

    def to_representation(self, job: Job) -> Any:
        if not job.end:
            return None
        end = ENDS[EndReason(job.end)]
        return {"reason": job.end, **asdict(end), "counts": end.counts or "none"}


class LaidOutNodeOut(serializers.Serializer[LaidOutNode]):
    node = serializers.CharField()
    rack = serializers.CharField(allow_blank=True)
    ranks = serializers.ListField(child=serializers.IntegerField(), source="groups.ranks")
    coordinates = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="By dimension of the mesh, its places that ranks of the node have: {pp: [0], tp: [0, 1]}.",
        source="groups.by_dimension",
    )


class LaidOutOut(serializers.Serializer[LaidOut]):
    """The layout of a job on its nodes, in order of rank."""

    title = serializers.CharField()
    nodes = LaidOutNodeOut(many=True)


class JobOut(serializers.ModelSerializer[Job]):
    """A job. `spec` has the fields of the job file."""

    team = serializers.CharField(source="team_id")
    user = serializers.CharField(source="user.username")
    url = serializers.SerializerMethodField()
    waiting = serializers.SerializerMethodField(
        help_text="Why it waits: code, sentence, numbers, position in the queue; null if it does not."
    )
    progress = serializers.SerializerMethodField(
        help_text="What the script last reported, the time left at its pace, and when its latest checkpoint was saved."
    )
    mfu = serializers.SerializerMethodField(
        help_text="Model FLOPs utilisation, 0 to 1; null if not measured."
    )
    hang = serializers.SerializerMethodField(
        help_text="Since when it makes no progress, and in which rank; null if it does."
    )
    stopping = serializers.SerializerMethodField(help_text="Why it is being stopped; null if it is not.")
    end = EndOut(
        source="*",
        allow_null=True,
        help_text="Why its newest attempt is being stopped, or ended; null before that.",
    )
    layout = serializers.SerializerMethodField(
        help_text="Which ranks and groups each node has; null without a layout in the job file."
    )
    spec = SpecOut()

    class Meta:
        model = Job
        fields = (
            "id", "name", "team", "user", "project", "state", "stopping", "end", "reason", "url", "priority",
            "num_gpus", "gpu_type", "attempt", "restarts", "submitted_ms", "started_ms", "finished_ms",
            "latest_checkpoint", "waiting", "progress", "mfu", "hang", "layout", "spec", "lineage",
            "cloned_from",
        )  # fmt: skip

    def get_url(self, job: Job) -> str:
        return f"{settings.PUBLIC_URL}/jobs/{job.id}/"

    def get_waiting(self, job: Job) -> dict[str, Any] | None:
        if not job.wait_sentence:
            return None
        return {
            "code": job.wait_code,
            "sentence": job.wait_sentence,
            "numbers": job.wait_numbers,
            "position": job.queue_position,
        }

    def get_progress(self, job: Job) -> dict[str, Any]:
        return {
            "step": job.step,
            "total_steps": job.total_steps,
            "loss": job.loss,
            "learning_rate": job.learning_rate,
            "utilisation": job.utilisation,
            "remaining_ms": remaining_ms(job) if job.state in ACTIVE else None,
            "latest_checkpoint_ms": job.latest_ms,
        }

    def get_hang(self, job: Job) -> str | None:
        hang = hangs.open_hang(job) if job.state in ACTIVE and job.stop == "none" else None
        return None if hang is None else hangs.sentence(hang, now_ms())

    def get_mfu(self, job: Job) -> float | None:
        return mfu_of_job(job.id)

    @extend_schema_field(LaidOutOut(allow_null=True))
    def get_layout(self, job: Job) -> Any:
        if not job.spec.get("parallel"):
            return None
        found = layouts.of_job(job, layouts.shown_attempt(job))
        return LaidOutOut(found).data if found is not None else None

    def get_stopping(self, job: Job) -> str | None:
        return None if job.stop == "none" or job.finished_ms else job.stop


class JobListed(JobOut):
    """A job in a list, without what takes a query or much room."""

    class Meta(JobOut.Meta):
        fields = tuple(
            name for name in JobOut.Meta.fields if name not in ("lineage", "mfu", "hang", "layout")
        )  # type: ignore[assignment]


class LogLineOut(serializers.Serializer[dict[str, Any]]):
    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    offset = serializers.IntegerField(
        help_text="Byte offset in the rank's log of the batch that has the line."
    )
    text = serializers.CharField(allow_blank=True)
    at_ms = serializers.IntegerField()


class LogOut(serializers.Serializer[dict[str, Any]]):
    lines = LogLineOut(many=True)
    next = serializers.IntegerField(help_text="Send it as `after` to read on.")
    ended = serializers.BooleanField(help_text="The job has ended and no more lines follow.")


class JobEventOut(serializers.Serializer[dict[str, Any]]):
    kind = serializers.CharField()
    at_ms = serializers.IntegerField()
    actor = serializers.CharField()
    cause = serializers.CharField(allow_blank=True)
    data = serializers.DictField()  # type: ignore[assignment]  # a field named as an attribute of serializers


class PriorityChange(serializers.Serializer[dict[str, Any]]):
    priority = serializers.IntegerField(help_text="0 is the most urgent, 100 the least.")


class Loss(serializers.Serializer[dict[str, Any]]):
    cause = serializers.CharField(required=False, allow_blank=True, help_text="Kept in the audit log.")
