from django.db import models


class Quota(models.Model):
    """What a team may hold of one GPU type at a time."""

    team = models.ForeignKey("accounts.Team", models.CASCADE)
    gpu_type = models.SlugField(max_length=60)
    guaranteed = models.PositiveIntegerField()
    maximum = models.PositiveIntegerField(help_text="with borrowing")
    queue_beyond = models.BooleanField(
        default=True, help_text="jobs beyond the maximum wait; otherwise they are refused"
    )
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "gpu_type"], name="one_quota_a_type"),
            models.CheckConstraint(
                condition=models.Q(guaranteed__lte=models.F("maximum")), name="guaranteed_le_maximum"
            ),
        ]


class Price(models.Model):
    gpu_type = models.SlugField(primary_key=True, max_length=60)
    micro_dollars_per_hour = models.BigIntegerField()


class LedgerEntry(models.Model):
    """Slots of one node that one attempt holds from start to end. The open rows are the use now.

    Plain ids, no foreign keys to jobs: the books outlive what they are about.
    """

    attempt_id = models.CharField(max_length=40)
    job_id = models.CharField(max_length=40)
    node_id = models.CharField(max_length=40)
    team = models.ForeignKey("accounts.Team", models.PROTECT)
    user = models.ForeignKey("accounts.User", models.PROTECT)
    gpu_type = models.SlugField(max_length=60)
    slots = models.PositiveIntegerField()
    started_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(null=True)
    micro_dollars_per_hour = models.BigIntegerField(help_text="the price when it started")

    class Meta:
        verbose_name_plural = "ledger entries"
        constraints = [
            models.UniqueConstraint(fields=["attempt_id", "node_id"], name="one_entry_an_attempt_and_node")
        ]
        indexes = [
            models.Index(fields=["team", "gpu_type"], condition=models.Q(ended_ms=None), name="ledger_open"),
            models.Index(fields=["team", "started_ms"]),
            models.Index(fields=["job_id"]),
        ]


class ShareSample(models.Model):
    """The share of a team at one moment. It is valid until the next sample of the same team and type."""

    at_ms = models.BigIntegerField()
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    gpu_type = models.SlugField(max_length=60)
    weight = models.FloatField(help_text="as if no department were above it")
    guaranteed = models.PositiveIntegerField()
    deserved = models.PositiveIntegerField()
    held = models.PositiveIntegerField()
    borrowed = models.PositiveIntegerField()
    lent = models.PositiveIntegerField()
    usage_share = models.FloatField(help_text="as the order of jobs counts it; 1 is its share")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "gpu_type", "at_ms"], name="one_share_a_moment")
        ]
