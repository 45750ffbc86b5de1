import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import platform_core.evaluations.states


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0012_unsaved_step"),
        ("registry", "0005_exports"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ExportMeasurement",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "target",
                    models.CharField(help_text="name of the serving target of the team", max_length=60),
                ),
                ("gpu_type", models.CharField(help_text="of the slots where its job runs", max_length=60)),
                (
                    "number",
                    models.PositiveIntegerField(
                        help_text="of this version and target: 2 is the first repetition"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("running", "running"),
                            ("failed", "failed"),
                            ("done", "done"),
                        ],
                        default=platform_core.evaluations.states.EvaluationState["WAITING"],
                        max_length=8,
                    ),
                ),
                ("reason", models.TextField(blank=True, help_text="why it failed, or is not submitted yet")),
                (
                    "report",
                    models.JSONField(help_text="as of export.json, but measured by the job", null=True),
                ),
                ("asked_ms", models.BigIntegerField()),
                ("ended_ms", models.BigIntegerField(null=True)),
                (
                    "asked_by",
                    models.ForeignKey(
                        help_text="its job is submitted as this person",
                        on_delete=django.db.models.deletion.PROTECT,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="measurements",
                        to="registry.modelversion",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["state"], name="export_measurements_by_state")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("version", "target", "number"), name="one_export_measurement_a_number"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    platform_core.evaluations.states.EvaluationState["DONE"],
                                    platform_core.evaluations.states.EvaluationState["FAILED"],
                                ],
                            ),
                            _negated=True,
                        ),
                        fields=("version", "target"),
                        name="one_export_measurement_at_a_time",
                    ),
                ],
            },
        ),
    ]
