from django.db import models


class ObjectiveChange(models.Model):
    """What an administrator has set for an objective instead of its default. Null: the default."""

    code = models.CharField(primary_key=True, max_length=40)
    target = models.FloatField(null=True, help_text="share of good events, 0 to 1")
    limit_ms = models.BigIntegerField(null=True)
    changed_by = models.ForeignKey("accounts.User", models.PROTECT)
    changed_ms = models.BigIntegerField()


class Measurement(models.Model):
    """Good events of all events in one minute, of objectives that no other table can tell later."""

    code = models.CharField(max_length=40)
    at_ms = models.BigIntegerField(help_text="when the minute began")
    good = models.PositiveIntegerField()
    total = models.PositiveIntegerField()
    note = models.CharField(max_length=200, blank=True, help_text="what was wrong")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["code", "at_ms"], name="one_measurement_a_minute")]
        indexes = [models.Index(fields=["at_ms"], name="measurements_by_time")]
