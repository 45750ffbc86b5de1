from django.db import models


class UtilisationSample(models.Model):
    """How much of each GPU type was held, and how busy the held slots were, at one moment."""

    at_ms = models.BigIntegerField()
    gpu_type = models.SlugField(max_length=60)
    slots = models.PositiveIntegerField()
    held = models.PositiveIntegerField()
    utilisation = models.FloatField(null=True, help_text="mean of the held slots, 0..1")
    queued_jobs = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["gpu_type", "at_ms"], name="one_sample_a_moment")]
