from django.db import models


class Lease(models.Model):
    """Who leads. Every apply names the fencing number it was planned under; an older number changes nothing."""

    name = models.CharField(primary_key=True, max_length=40)
    holder = models.CharField(max_length=120)
    fencing = models.BigIntegerField(default=0)
    expires_ms = models.BigIntegerField()
