from django.db import models

from platform_core.alerting.machine import AlertState
from platform_core.alerting.rules import Severity

_SEVERITIES = [(severity.value, severity.value) for severity in Severity]


class AlertRule(models.Model):
    """A rule of a team or of operators; one with the code of a built-in rule replaces its condition."""

    code = models.CharField(max_length=60)
    team = models.ForeignKey("accounts.Team", models.CASCADE, null=True, help_text="none: of operators")
    title = models.CharField(max_length=120)
    condition = models.CharField(max_length=200, help_text="as docs/reference/alerts.md has it")
    severity = models.CharField(max_length=10, choices=_SEVERITIES)
    remedy = models.CharField(max_length=500, blank=True)
    enabled = models.BooleanField(default=True)
    changed_by = models.ForeignKey("accounts.User", models.PROTECT)
    changed_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["code"], name="one_rule_a_code")]


class Alert(models.Model):
    """One episode of a rule about one subject; the fields are those of platform_core.alerting.machine.Alert."""

    id = models.CharField(primary_key=True, max_length=40)
    rule = models.CharField(max_length=60)
    title = models.CharField(max_length=120)
    severity = models.CharField(max_length=10, choices=_SEVERITIES)
    subject = models.CharField(max_length=140, blank=True, help_text="id; empty: the cluster")
    name = models.CharField(max_length=255, blank=True, help_text="of the subject")
    team = models.CharField(max_length=60, blank=True, help_text="slug; empty: of the cluster")
    sentence = models.TextField(help_text="what it means for people, with the newest numbers")
    remedy = models.TextField()
    condition = models.CharField(max_length=120, help_text="in words")
    state = models.CharField(max_length=10, choices=[(state.value, state.value) for state in AlertState])
    since_ms = models.BigIntegerField()
    began_ms = models.BigIntegerField()
    seen_ms = models.BigIntegerField()
    value = models.FloatField()
    worst = models.FloatField()
    fired_ms = models.BigIntegerField(null=True)
    clearing_ms = models.BigIntegerField(null=True)
    told = models.CharField(max_length=10, blank=True, help_text="the state that people were last told")
    told_ms = models.BigIntegerField(default=0)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    acknowledged_ms = models.BigIntegerField(null=True)
    note = models.CharField(max_length=500, blank=True, help_text="of the one who acknowledged it")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"],
                condition=~models.Q(state=AlertState.RESOLVED),
                name="one_open_alert_a_subject",
            )
        ]
        indexes = [
            models.Index(fields=["-fired_ms", "-id"], name="newest_alerts"),
            models.Index(fields=["team", "-fired_ms"], name="alerts_of_a_team"),
            models.Index(
                fields=["state"], condition=~models.Q(state=AlertState.RESOLVED), name="open_alerts"
            ),
        ]


class Silence(models.Model):
    """Nobody is told of matching alerts for a time. An empty rule or subject matches all."""

    team = models.ForeignKey(
        "accounts.Team", models.CASCADE, null=True, help_text="none: of operators, for all"
    )
    rule = models.CharField(max_length=60, blank=True)
    subject = models.CharField(max_length=140, blank=True)
    from_ms = models.BigIntegerField()
    until_ms = models.BigIntegerField()
    reason = models.CharField(max_length=300)
    made_by = models.CharField(max_length=150)
    ended_by = models.CharField(max_length=150, blank=True, help_text="who ended it before its time")

    class Meta:
        indexes = [models.Index(fields=["until_ms"], name="silences_by_end")]


class Channel(models.Model):
    """Where notices of a team, or of the platform, go. The address and the key are encrypted at rest."""

    class Kind(models.TextChoices):
        MAIL = "mail"
        WEBHOOK = "webhook"
        SLACK = "slack"
        PAGERDUTY = "pagerduty"

    team = models.ForeignKey("accounts.Team", models.CASCADE, null=True, help_text="none: of operators")
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    address = models.BinaryField(help_text="sealed: a URL, or mail addresses")
    shown = models.CharField(max_length=200, help_text="what of the address is no secret")
    key = models.BinaryField(help_text="sealed: signs a webhook, or routes at PagerDuty")
    least = models.CharField(max_length=10, choices=_SEVERITIES, default=Severity.WARNING)
    every_team = models.BooleanField(default=False, help_text="also gets the alerts of all teams")
    made_by = models.CharField(max_length=150)
    made_ms = models.BigIntegerField()
    deleted_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"], condition=models.Q(deleted_ms=None), nulls_distinct=False,
                name="one_channel_a_name",
            )
        ]  # fmt: skip


class Notice(models.Model):
    """What one channel is told of one or more alerts. Its row is written in the transaction of its cause."""

    id = models.CharField(primary_key=True, max_length=40)
    channel = models.ForeignKey(Channel, models.CASCADE, related_name="notices")
    alerts = models.ManyToManyField(Alert, related_name="notices")
    state = models.CharField(max_length=10, help_text="of the alerts; empty: a test")
    title = models.CharField(max_length=200)
    text = models.TextField()
    made_ms = models.BigIntegerField()
    next_try_ms = models.BigIntegerField(null=True, db_index=True, help_text="null: it was sent, or given up")
    tries = models.PositiveIntegerField(default=0)
    sent_ms = models.BigIntegerField(null=True)
    error = models.CharField(max_length=200, blank=True, help_text="of the last try")

    class Meta:
        indexes = [models.Index(fields=["channel", "-made_ms"], name="notices_of_a_channel")]


class Sample(models.Model):
    """A value of a measure at one moment, kept for previews of rules and for service levels."""

    measure = models.CharField(max_length=40)
    subject = models.CharField(max_length=140, blank=True)
    team = models.CharField(max_length=60, blank=True)
    at_ms = models.BigIntegerField()
    value = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["measure", "at_ms", "subject"], name="one_sample_of_a_measure")
        ]
        indexes = [models.Index(fields=["at_ms"], name="samples_by_time")]
