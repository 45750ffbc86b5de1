"""Experiments, the metrics of their runs, and runs side by side, over REST."""

import math
from dataclasses import asdict
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.experiments import fields
from platform_core.experiments.comparison import MISSING, compared_metrics, differences
from platform_core.experiments.states import RunState
from webapp.accounts.queries import actor_of
from webapp.base.parsing import whole_number
from webapp.experiments import comparison, queries, services
from webapp.experiments.models import Experiment
from webapp.experiments.standings import Standing, standings
from webapp.metrics import queries as metrics
from webapp.metrics.values import Points, Summary
from webapp.rest.bodies import sent
from webapp.rest.openapi import listed

MOST_LISTED = 200
MOST_COMPARED = 20


class BestOut(serializers.Serializer[Any]):
    job = serializers.CharField(source="run.id")
    name = serializers.CharField(source="run.name")
    metric = serializers.CharField(help_text="The metric that the runs are judged by.")
    rule = serializers.CharField(help_text="Which value of the metric counts: lowest, highest or last.")
    value = serializers.FloatField()


class ExperimentOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    team = serializers.CharField()
    runs = serializers.IntegerField()
    active = serializers.IntegerField(help_text="Runs that hold GPUs now.")
    best = BestOut(allow_null=True, help_text="The best run; null before a metric was reported.")
    description = serializers.CharField(help_text="Markdown.")
    tags = serializers.DictField(child=serializers.CharField(allow_blank=True))
    created_by = serializers.CharField(help_text="Username; empty where it is not known.")
    created_ms = serializers.IntegerField()
    changed_ms = serializers.IntegerField(help_text="When a run last reported or ended.")
    archived_ms = serializers.IntegerField(allow_null=True)
    deleted_ms = serializers.IntegerField(allow_null=True)


class NewExperiment(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=60)
    name = serializers.CharField(max_length=fields.MAX_EXPERIMENT_NAME)
    description = serializers.CharField(
        max_length=fields.MAX_DESCRIPTION, required=False, allow_blank=True, trim_whitespace=False
    )
    tags = serializers.DictField(required=False)


class ExperimentChange(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=fields.MAX_EXPERIMENT_NAME, required=False)
    description = serializers.CharField(
        max_length=fields.MAX_DESCRIPTION, required=False, allow_blank=True, trim_whitespace=False
    )
    tags = serializers.DictField(required=False, help_text="Replace all tags of the experiment.")
    archived = serializers.BooleanField(required=False)


class Experiments(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("team", description="Only of this team."),
            OpenApiParameter("search", description="Part of the name."),
            OpenApiParameter("view", description="active (the default), archived, deleted or all."),
        ],
        responses=listed(ExperimentOut),
    )
    def get(self, request: Request) -> Response:
        """List the newest 200 experiments of your teams."""
        rows = queries.visible(actor_of(request).sees, request.query_params.get("view") or "active")
        if team := request.query_params.get("team"):
            rows = rows.filter(team=team)
        if search := request.query_params.get("search"):
            rows = rows.filter(name__icontains=search)
        experiments = list(rows[:MOST_LISTED])
        known = standings(experiments)
        lines = [_experiment(experiment, known[experiment.pk]) for experiment in experiments]
        return Response({"results": ExperimentOut(lines, many=True).data})

    @extend_schema(request=NewExperiment, responses={201: ExperimentOut})
    def post(self, request: Request) -> Response:
        """Create an experiment."""
        body = sent(NewExperiment, request)
        experiment = services.create_experiment(actor_of(request), **body)
        return _answer(experiment, 201)


class OneExperiment(APIView):
    @extend_schema(responses={200: ExperimentOut})
    def get(self, request: Request, experiment_id: int) -> Response:
        """Read an experiment with its best run."""
        return _answer(queries.find_experiment(actor_of(request), experiment_id))

    @extend_schema(request=ExperimentChange, responses={200: ExperimentOut})
    def patch(self, request: Request, experiment_id: int) -> Response:
        """Rename, describe, tag, archive or unarchive an experiment."""
        actor, changes = actor_of(request), dict(sent(ExperimentChange, request))
        archived = changes.pop("archived", None)
        experiment = queries.find_experiment(actor, experiment_id)
        services.update_experiment(actor, experiment, **changes)
        if archived is not None:
            (services.archive_experiment if archived else services.restore_experiment)(actor, experiment)
        return _answer(queries.find_experiment(actor, experiment_id))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, experiment_id: int) -> Response:
        """Delete an experiment with its runs; it can be restored until retention removes it."""
        actor = actor_of(request)
        services.delete_experiment(actor, queries.find_experiment(actor, experiment_id))
        return Response(status=204)


class ExperimentRestore(APIView):
    @extend_schema(request=None, responses={200: ExperimentOut})
    def post(self, request: Request, experiment_id: int) -> Response:
        """Restore a deleted experiment with the runs that were deleted with it; or take it out of the archive."""
        actor = actor_of(request)
        services.restore_experiment(actor, queries.find_experiment(actor, experiment_id, deleted=True))
        return _answer(queries.find_experiment(actor, experiment_id))


def _answer(experiment: Experiment, status: int = 200) -> Response:
    standing = standings([experiment])[experiment.pk]
    return Response(ExperimentOut(_experiment(experiment, standing)).data, status=status)


def _experiment(experiment: Experiment, standing: Standing) -> dict[str, Any]:
    return {
        "id": experiment.id,
        "name": experiment.name,
        "team": experiment.team_id,
        "runs": standing.runs,
        "active": standing.running,
        "best": standing.best,
        "description": experiment.description,
        "tags": experiment.tags,
        "created_by": experiment.created_by.username if experiment.created_by else "",
        "created_ms": experiment.created_ms,
        "changed_ms": standing.changed_ms,
        "archived_ms": experiment.archived_ms,
        "deleted_ms": experiment.deleted_ms,
    }


class ComparedRun(serializers.Serializer[Any]):
    job = serializers.CharField()
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=list(RunState))
    experiment = serializers.CharField()


class DifferenceOut(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="Dotted name of the setting.")
    values = serializers.ListField(help_text="One for each run; null where the run lacks it.")


class ComparedMetricOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    rule = serializers.CharField(help_text="Which value counts: lowest, highest or last.")
    values = serializers.ListField(
        child=serializers.FloatField(allow_null=True), help_text="One for each run; null without the metric."
    )
    best = serializers.IntegerField(
        allow_null=True, help_text="Index of the best run; null if there is none."
    )


class ComparisonOut(serializers.Serializer[Any]):
    runs = ComparedRun(many=True)
    differences = DifferenceOut(many=True, help_text="Settings that differ between the runs.")
    metrics = ComparedMetricOut(many=True)


class Comparison(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter(
                "jobs",
                required=True,
                description=f"Ids of the jobs, separated by commas; at most {MOST_COMPARED}.",
            )
        ],
        responses={200: ComparisonOut},
    )
    def get(self, request: Request) -> Response:
        """Compare runs: the settings that differ, and the value of each metric that counts."""
        ids = [job_id.strip() for job_id in request.query_params.get("jobs", "").split(",") if job_id.strip()]
        if not 1 <= len(ids) <= MOST_COMPARED:
            why = f"name 1 to {MOST_COMPARED} jobs by their ids, separated by commas, not {len(ids)}"
            raise TrainmasterError("request_invalid", what="jobs", why=why)
        runs = [queries.run_for(request, job_id) for job_id in dict.fromkeys(ids)]
        rows = differences([comparison.config(run) for run in runs])
        body = {
            "runs": [
                {
                    "job": run.id,
                    "name": run.name,
                    "state": run.state,
                    "experiment": run.experiment.name,
                }
                for run in runs
            ],
            "differences": [
                {"name": row.name, "values": [None if value is MISSING else value for value in row.values]}
                for row in rows
            ],
            "metrics": [asdict(row) for row in compared_metrics([comparison.reported(run) for run in runs])],
        }
        return Response(ComparisonOut(body).data)


class MetricSummary(serializers.Serializer[Any]):
    value = serializers.FloatField(allow_null=True, help_text="The newest value; null if it is not finite.")
    step = serializers.IntegerField(help_text="Step of the newest value.")
    min = serializers.FloatField(allow_null=True, help_text="Of the finite values; null without any.")
    max = serializers.FloatField(allow_null=True)


class MetricsOut(serializers.Serializer[Any]):
    series = serializers.DictField(
        child=serializers.ListField(
            child=serializers.ListField(
                child=serializers.FloatField(allow_null=True),
                help_text="step, value (null if it is not finite), at_ms",
            )
        ),
        help_text="Values of each metric, in the order of their steps.",
    )
    summary = serializers.DictField(child=MetricSummary())
    parameters = serializers.DictField(help_text="Hyperparameters of the job and what the script reported.")


class Metrics(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("key", description="Name of one metric; all metrics without it."),
            OpenApiParameter("after_step", OpenApiTypes.INT, description="Only values of later steps."),
        ],
        responses={200: MetricsOut},
    )
    def get(self, request: Request, job_id: str) -> Response:
        """Read the metrics of a job: the values by step, and a summary of each metric."""
        run = queries.run_for(request, job_id)
        key = request.query_params.get("key")
        after = request.query_params.get("after_step", "")
        found = metrics.points(
            run.id, [key] if key else None, after_step=whole_number(after, "after_step") if after else None
        )
        series = {
            name: _rows(found[name]) if name in found else [] for name in ([key] if key else run.summaries)
        }
        summary = {name: _summary(of_metric) for name, of_metric in run.summaries.items()}
        return Response({"series": series, "summary": summary, "parameters": run.parameters})


def _rows(points: Points) -> list[tuple[int, float | None, int]]:
    return [
        (step, _finite(value), at_ms)
        for step, value, at_ms in zip(points.steps, points.values, points.times_ms, strict=True)
    ]


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "value": _finite(summary.last),
        "step": summary.last_step,
        "min": summary.min,
        "max": summary.max,
    }


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None
