from django.db import models

from platform_core.evaluations.states import SETTLED, EvaluationState


class Suite(models.Model):
    """One version of an evaluation suite of a team; the newest is the one that runs."""

    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=120)
    version = models.PositiveIntegerField()
    spec = models.JSONField(
        help_text="job and metrics, code and image pinned (platform_core.evaluations.suite)"
    )
    origin = models.JSONField(default=dict, help_text="repository, commit and branch of its code")
    author = models.ForeignKey(
        "accounts.User", models.PROTECT, help_text="its jobs are submitted as this person"
    )
    created_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name", "version"], name="one_suite_a_version")
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class EvaluationRun(models.Model):
    """One time that the server evaluates, or has evaluated, a version by a suite."""

    suite = models.ForeignKey(Suite, models.CASCADE, related_name="runs")
    version = models.ForeignKey("registry.ModelVersion", models.CASCADE, related_name="evaluation_runs")
    number = models.PositiveIntegerField(help_text="of this suite and version: 2 is the first repetition")
    state = models.CharField(
        max_length=8, choices=[(state.value, state.value) for state in EvaluationState],
        default=EvaluationState.WAITING,
    )  # fmt: skip
    reason = models.TextField(blank=True, help_text="why it failed, or is not submitted yet")
    job = models.ForeignKey("jobs.Job", models.SET_NULL, null=True, related_name="+")
    asked_by = models.ForeignKey(
        "accounts.User", models.SET_NULL, null=True, help_text="null: the platform itself"
    )
    asked_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["suite", "version", "number"], name="one_evaluation_run_a_number"),
            models.UniqueConstraint(
                fields=["suite", "version"], name="one_evaluation_run_at_a_time",
                condition=~models.Q(state__in=sorted(SETTLED)),
            ),
        ]  # fmt: skip
        indexes = [models.Index(fields=["state"], name="evaluation_runs_by_state")]
