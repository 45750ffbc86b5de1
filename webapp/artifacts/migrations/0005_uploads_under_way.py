from django.conf import settings
from django.db import migrations
from django.db.models import F, Value
from django.db.models.functions import Concat


def keep_uploads_that_are_under_way(apps, schema_editor):
    """They lie below folders of their own, and each of their files has a row now."""
    uploads = apps.get_model("artifacts", "Upload").objects
    store = Value(f"{settings.STORE_URL.rstrip('/')}/")
    uploads.update(source_url=Concat(store, F("kind"), Value("/"), F("id")))
    files = apps.get_model("artifacts", "UploadFile")
    for upload in uploads.filter(manifest=None):
        files.objects.bulk_create(
            files(
                upload=upload,
                path=path,
                part=part,
                sha256=part["sha256"],
                size=part["size"],
                etag=part.get("etag", ""),
                writing_ms=upload.writing.get(path),
            )
            for path, part in upload.files.items()
        )


class Migration(migrations.Migration):
    dependencies = [("artifacts", "0004_shared_folders")]

    operations = [migrations.RunPython(keep_uploads_that_are_under_way, migrations.RunPython.noop)]
