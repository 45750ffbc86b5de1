from typing import Any

from django.db import migrations, models


def keep_etags_alone(apps: Any, schema_editor: Any) -> None:
    """A version that is ready had a row for each file; its manifest lists them, and lacks only their etags."""
    snapshots = apps.get_model("datasets", "DatasetSnapshot").objects
    files = apps.get_model("datasets", "SourceFile").objects
    manifests = apps.get_model("artifacts", "Manifest").objects
    for snapshot_id, manifest_id in (
        snapshots.filter(state="ready").exclude(source="").values_list("id", "manifest_id")
    ):
        etags = dict(files.filter(snapshot=snapshot_id).values_list("path", "etag"))
        listed = manifests.values_list("document__files", flat=True).get(id=manifest_id)
        snapshots.filter(id=snapshot_id).update(etags=[etags.get(file["path"], "") for file in listed])
    files.filter(snapshot__state__in=("ready", "unchanged", "deleted")).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("datasets", "0006_files_to_hash"),
    ]

    operations = [
        migrations.AddField(
            model_name="datasetsnapshot",
            name="etags",
            field=models.JSONField(
                default=list, help_text="of its files at the source, in the manifest's order"
            ),
        ),
        migrations.AlterField(
            model_name="sourcefile",
            name="part",
            field=models.JSONField(help_text="of the manifest, once it is hashed", null=True),
        ),
        migrations.RunPython(keep_etags_alone, migrations.RunPython.noop),
    ]
