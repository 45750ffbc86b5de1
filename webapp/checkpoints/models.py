from django.db import models


class Checkpoint(models.Model):
    """A verified checkpoint in the store. A job and step that was written twice (after a restart) keeps the newest."""

    id = models.CharField(primary_key=True, max_length=40)
    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="checkpoints")
    attempt = models.PositiveIntegerField()
    step = models.BigIntegerField()
    manifest = models.ForeignKey("artifacts.Manifest", models.PROTECT)
    metrics = models.JSONField(default=dict)
    saved_ms = models.BigIntegerField()
    damaged = models.TextField(
        blank=True, help_text="why it cannot be restored, as a node found; empty: nobody found anything wrong"
    )
    deleted_ms = models.BigIntegerField(null=True, help_text="its bytes were removed by the retention policy")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "attempt", "step"], name="one_checkpoint_a_step")
        ]
