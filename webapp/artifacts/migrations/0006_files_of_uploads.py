from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("artifacts", "0005_uploads_under_way")]

    operations = [
        migrations.RemoveField(model_name="upload", name="files"),
        migrations.RemoveField(model_name="upload", name="writing"),
    ]
