"""Runs as REST shows and takes them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from platform_core.experiments import fields
from platform_core.experiments.states import RunState
from webapp.experiments.models import Run

NUMBER = {"oneOf": [{"type": "number"}, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]}


@extend_schema_field(NUMBER)
class Number(serializers.Field[float, Any, float | str, Any]):
    """JSON has no NaN and no infinities: they go by their names."""

    def to_representation(self, value: float) -> float | str:
        return number(value)


def number(value: float) -> float | str:
    if value != value:
        return "NaN"
    return value if abs(value) != float("inf") else "Infinity" if value > 0 else "-Infinity"


class SummaryOut(serializers.Serializer[Any]):
    """A metric of a run: the values that count over its whole course."""

    count = serializers.IntegerField(help_text="Points.")
    non_finite = serializers.IntegerField(help_text="Points that are NaN or infinite.")
    first = Number()
    first_step = serializers.IntegerField()
    last = Number()
    last_step = serializers.IntegerField()
    last_ms = serializers.IntegerField()
    min = serializers.FloatField(allow_null=True, help_text="Of the finite values; null without any.")
    min_step = serializers.IntegerField(allow_null=True)
    max = serializers.FloatField(allow_null=True)
    max_step = serializers.IntegerField(allow_null=True)


class RunMeasures(serializers.Serializer[Any]):
    gpu_type = serializers.CharField(help_text="Of its job; empty without one.")
    mfu = serializers.FloatField(allow_null=True, help_text="0 to 1")
    utilisation = serializers.FloatField(allow_null=True, help_text="Of its slots, 0 to 1.")
    tokens_per_second = serializers.FloatField(allow_null=True, help_text="Of all ranks.")
    step_seconds = serializers.FloatField(allow_null=True, help_text="Of the slowest rank.")
    data_wait = serializers.FloatField(
        allow_null=True, help_text="Part of its time that waits for data, 0 to 1."
    )
    memory_bytes = serializers.FloatField(allow_null=True, help_text="The most of any rank at any time.")
    gpu_ms = serializers.IntegerField(allow_null=True)
    micro_dollars = serializers.IntegerField(allow_null=True)
    measured_ms = serializers.IntegerField(allow_null=True)


class RunOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField(help_text="Markdown.")
    experiment = serializers.CharField(source="experiment.name")
    experiment_id = serializers.IntegerField()
    team = serializers.CharField(source="experiment.team_id")
    job = serializers.CharField(source="job_id", allow_null=True, help_text="null for a run without a job")
    state = serializers.ChoiceField(choices=list(RunState))
    owner = serializers.CharField(source="owner_name", help_text="Username; empty without one.")
    parent = serializers.CharField(source="parent_id", allow_null=True)  # type: ignore[assignment]
    group = serializers.CharField(help_text="Runs that are shown as one, such as seeds.")
    source = serializers.CharField(help_text="job, sdk, mlflow, tensorboard, wandb or api")  # type: ignore[assignment]
    parameters = serializers.DictField()
    tags = serializers.DictField(child=serializers.CharField(allow_blank=True))
    metrics = serializers.SerializerMethodField(help_text="The last value of each metric.")
    efficiency = RunMeasures(
        source="*", help_text="As it was measured last, once a minute; null: not measured."
    )
    created_ms = serializers.IntegerField()
    started_ms = serializers.IntegerField(allow_null=True)
    ended_ms = serializers.IntegerField(allow_null=True)
    reported_ms = serializers.IntegerField(allow_null=True, help_text="When its process last reported.")
    changed_ms = serializers.IntegerField()
    archived_ms = serializers.IntegerField(allow_null=True)
    deleted_ms = serializers.IntegerField(allow_null=True)

    @extend_schema_field({"type": "object", "additionalProperties": NUMBER})
    def get_metrics(self, run: Run) -> dict[str, float | str]:
        return {key: number(summary.last) for key, summary in run.summaries.items()}


class OneRunOut(RunOut):
    lineage = serializers.DictField(help_text="Code, git, dataset, packages, seed, command, hardware.")


def _name(limit: int, **named: Any) -> serializers.CharField:
    return serializers.CharField(max_length=limit, required=False, **named)


class NewRun(serializers.Serializer[Any]):
    team = _name(60, help_text="May be left out by who is in one team.")
    experiment = _name(
        fields.MAX_EXPERIMENT_NAME, help_text="Name; created when there is none. Default: “Default”."
    )
    experiment_id = serializers.IntegerField(
        min_value=1, max_value=(1 << 63) - 1, required=False, help_text="Instead of the name."
    )
    run_id = _name(32, help_text="32 digits of 0-9 and a-f: the same id again returns the run it made.")
    name = _name(fields.MAX_RUN_NAME)
    description = _name(fields.MAX_DESCRIPTION, allow_blank=True, trim_whitespace=False)
    parent = _name(40, help_text="Id of a run of the same team.")  # type: ignore[assignment]
    group = _name(fields.MAX_RUN_NAME, allow_blank=True)
    source = serializers.ChoiceField(choices=sorted(fields.SOURCES - {"job"}), default="api")  # type: ignore[assignment]
    parameters = serializers.DictField(required=False)
    tags = serializers.DictField(required=False)
    started_ms = serializers.IntegerField(min_value=0, max_value=1 << 53, required=False)

    def validate_experiment(self, value: str) -> str:
        """A number would make an experiment of that name, where one with that id was meant."""
        if not isinstance(self.initial_data.get("experiment"), str):
            raise serializers.ValidationError(
                "It is a name; give the number of an experiment as experiment_id."
            )
        return value


class RunChange(serializers.Serializer[Any]):
    name = _name(fields.MAX_RUN_NAME)
    description = _name(fields.MAX_DESCRIPTION, allow_blank=True, trim_whitespace=False)
    group = _name(fields.MAX_RUN_NAME, allow_blank=True)
    parent = _name(40, allow_null=True)  # type: ignore[assignment]
    experiment_id = serializers.IntegerField(min_value=1, max_value=(1 << 63) - 1, required=False)
    state = serializers.ChoiceField(choices=list(RunState), required=False)
    ended_ms = serializers.IntegerField(min_value=0, max_value=1 << 53, required=False, allow_null=True)
    archived = serializers.BooleanField(required=False)
    parameters = serializers.DictField(required=False, help_text="Added to those of the run.")
    tags = serializers.DictField(
        child=serializers.CharField(allow_null=True, allow_blank=True, trim_whitespace=False),
        required=False,
        help_text="Added to those of the run; null removes a tag.",
    )


class Finish(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=["succeeded", "failed", "cancelled"], default="succeeded")
    ended_ms = serializers.IntegerField(min_value=0, max_value=1 << 53, required=False, allow_null=True)


class Search(serializers.Serializer[Any]):
    teams = serializers.ListField(child=serializers.CharField(max_length=60), required=False, max_length=100)
    experiments = serializers.ListField(child=serializers.IntegerField(), required=False, max_length=1000)
    filter = serializers.CharField(required=False, allow_blank=True, help_text="docs/reference/filter.md")
    order = serializers.ListField(
        child=serializers.CharField(max_length=300), required=False, max_length=8,
        help_text="Such as metrics.loss ASC; newest first without it.",
    )  # fmt: skip
    cursor = serializers.CharField(required=False, allow_blank=True, help_text="`next` of the page before.")
    limit = serializers.IntegerField(min_value=1, max_value=1000, required=False, help_text="100 by default.")
    view = serializers.ChoiceField(choices=["active", "archived", "deleted", "all"], required=False)


class BulkChange(serializers.Serializer[Any]):
    ids = serializers.ListField(child=serializers.CharField(max_length=40), min_length=1, max_length=1000)
    action = serializers.ChoiceField(choices=["archive", "delete", "restore", "tag"])
    tags = serializers.DictField(required=False, help_text="For the action tag.")


class BulkChanged(serializers.Serializer[Any]):
    changed = serializers.IntegerField(help_text="Runs that were not so before.")
