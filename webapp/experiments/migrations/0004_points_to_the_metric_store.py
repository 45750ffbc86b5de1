import numpy as np
from django.db import connection, migrations

from platform_core.metrics.blocks import BLOCK, total
from platform_core.metrics.points import points
from webapp.metrics import segments

# 0.1.0 kept a row for each point, and of each step those of the last attempt only.
SERIES = """
SELECT run_id, key, array_agg(step ORDER BY step), array_agg(value ORDER BY step), array_agg(at_ms ORDER BY step),
       array_agg(attempt ORDER BY step)
FROM experiments_metricpoint WHERE run_id = %s GROUP BY run_id, key ORDER BY key
"""


def move(apps, schema_editor):
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT run_id FROM experiments_metricpoint ORDER BY run_id")
        for [run] in cursor.fetchall():
            cursor.execute(SERIES, [run])
            series = cursor.fetchall()
            apps.get_model("metrics", "Subject").objects.create(
                id=run, version=1, compacted_version=1, changed_ms=max(max(times) for *_, times, _ in series)
            )
            for row in series:
                move_series(apps, *row)


def move_series(apps, run, key, steps, values, times_ms, attempts):
    batch = points(steps, values, times_ms, np.array(attempts))
    new = segments.pieces(batch, np.zeros(1, np.int64), compacted=True)
    series = apps.get_model("metrics", "Series").objects.create(
        subject_id=run, key=key, version=1, pending_segments=0, pending_points=0,
        least_attempt=min(attempts), greatest_attempt=max(attempts),
        **{name: total(new.blocks)[0][name].item() for name in BLOCK.names},
    )  # fmt: skip
    segments.write(np.array([series.pk]), 1, new)


class Migration(migrations.Migration):
    dependencies = [
        ("experiments", "0003_run_files_and_logged_models"),
        ("metrics", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(move, migrations.RunPython.noop),
        migrations.DeleteModel(name="MetricPoint"),
        migrations.RemoveField(model_name="run", name="summary"),
        migrations.RemoveField(model_name="run", name="ingested"),
    ]
