"""One end reason for members, attempts, failures and jobs, in place of the five kinds of end."""

from django.db import migrations, models
from django.db.models import F, OuterRef, Subquery

REASONS = (
    "script_error", "out_of_memory_host", "out_of_memory_gpu", "killed", "node_lost", "gpu_failed", "network",
    "launcher", "disk_full", "hang", "silent_corruption", "data_review", "preempted", "spot_notice", "maintenance",
    "time_limit", "cancelled", "stopped", "succeeded",
)  # fmt: skip
CHOICES = [(reason, reason) for reason in REASONS]
FROM_KIND = {
    "script": "script_error",
    "out_of_memory": "out_of_memory_host",
    "infrastructure": "launcher",
    "stopped": "stopped",
    "node_lost": "node_lost",
}
FROM_OUTCOME = {"succeeded": "succeeded", "cancelled": "cancelled", "preempted": "preempted"}


def map_values(apps, schema_editor):
    Job, Attempt, Member = (apps.get_model("jobs", name) for name in ("Job", "Attempt", "Member"))
    ended = Member.objects.filter(phase__in=["exited", "lost"])
    for kind, reason in FROM_KIND.items():
        ended.filter(end=kind).update(end=reason)
    ended.filter(end="script_error", exit_code=0).update(end="succeeded")
    Member.objects.exclude(phase__in=["exited", "lost"]).update(end="succeeded")
    for job in Job.objects.exclude(failures=[]).only("failures").iterator():
        for failure in job.failures:
            failure["end"] = FROM_KIND[failure.pop("kind", "script")]
        job.save(update_fields=["failures"])
        for failure in job.failures:
            Attempt.objects.filter(job=job, number=failure.get("attempt", 0)).exclude(ended_ms=None).update(
                end=failure["end"]
            )
    for outcome, reason in FROM_OUTCOME.items():
        Attempt.objects.filter(outcome__startswith=f"{outcome}:").update(end=reason)
    Attempt.objects.filter(end="", outcome__contains="its limit is").update(end="time_limit")
    Attempt.objects.filter(end="", outcome__startswith="failed:").update(end="script_error")
    newest = Attempt.objects.filter(job=OuterRef("pk"), number=OuterRef("attempt"))
    with_attempt = Job.objects.filter(attempt__gt=0, attempts__number=F("attempt"))
    with_attempt.update(end=Subquery(newest.values("end")[:1]))
    Job.objects.filter(state="cancelled", end="").update(end="cancelled")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_recoveries")]

    operations = [
        migrations.AddField(
            "job",
            "end",
            models.CharField(
                blank=True, choices=CHOICES, default="", max_length=20,
                help_text="why its newest attempt is stopped, or ended",
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            "attempt",
            "end",
            models.CharField(blank=True, choices=CHOICES, default="", help_text="why it ended", max_length=20),
            preserve_default=False,
        ),
        migrations.AlterField(
            "member",
            "end",
            models.CharField(
                choices=CHOICES, default="succeeded", help_text="what ended it, once it has ended", max_length=20
            ),
        ),
        migrations.RunPython(map_values, migrations.RunPython.noop, elidable=True),
    ]  # fmt: skip
