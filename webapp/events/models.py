from django.db import models


class Event(models.Model):
    """What happened, to what, why, by whom and when. Append-only: the timeline, the audit log and every story."""

    subject_kind = models.CharField(max_length=20)
    subject_id = models.CharField(max_length=140)
    kind = models.CharField(max_length=60)
    at_ms = models.BigIntegerField()
    actor = models.CharField(max_length=170, help_text="user:alice, node:node-…, scheduler, system")
    cause = models.TextField(blank=True)
    team = models.CharField(
        max_length=60, blank=True, help_text="slug of the team that may see it; empty: operators"
    )
    data = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index(fields=["subject_kind", "subject_id", "id"]),
            models.Index(fields=["team", "-id"]),
            models.Index(fields=["kind", "-id"]),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_kind} {self.subject_id}"
