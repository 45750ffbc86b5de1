"""An order that cannot be made is an end reason of its own."""

from django.db import migrations, models

import platform_core.jobs.ends

REASONS = (
    "script_error", "out_of_memory_host", "out_of_memory_gpu", "killed", "node_lost", "gpu_failed", "network",
    "launcher", "disk_full", "hang", "silent_corruption", "data_review", "refused", "preempted", "spot_notice",
    "maintenance", "time_limit", "cancelled", "stopped", "succeeded",
)  # fmt: skip
CHOICES = [(reason, reason) for reason in REASONS]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0013_several_profile_orders")]

    operations = [
        migrations.AlterField(
            "attempt",
            "end",
            models.CharField(blank=True, choices=CHOICES, help_text="why it ended", max_length=20),
        ),
        migrations.AlterField(
            "job",
            "end",
            models.CharField(
                blank=True,
                choices=CHOICES,
                help_text="why its newest attempt is stopped, or ended",
                max_length=20,
            ),
        ),
        migrations.AlterField(
            "member",
            "end",
            models.CharField(
                choices=CHOICES,
                default=platform_core.jobs.ends.EndReason["SUCCEEDED"],
                help_text="what ended it, once it has ended",
                max_length=20,
            ),
        ),
    ]
