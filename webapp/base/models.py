from django.db import models


class Lease(models.Model):
    """Who leads. Every apply names the fencing number it was planned under; an older number changes nothing."""

    name = models.CharField(primary_key=True, max_length=40)
    holder = models.CharField(max_length=120)
    fencing = models.BigIntegerField(default=0)
    expires_ms = models.BigIntegerField()


class PlannedStop(models.Model):
    """A part of the platform ended in order, as when an operator stops or upgrades it. A crash leaves no row."""

    part = models.CharField(max_length=20)
    at_ms = models.BigIntegerField(db_index=True)
    back_ms = models.BigIntegerField(null=True, help_text="when the platform was first probed after it")
    over_ms = models.BigIntegerField(null=True, help_text="when it worked again, or was given time enough to")
