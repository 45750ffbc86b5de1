from django.db import migrations, models

STAGES = ("candidate", "validated", "staging", "production", "archived", "recalled")


def name_them_as_the_machine_does(apps, schema_editor):
    versions = apps.get_model("registry", "ModelVersion").objects
    versions.filter(stage="none").update(stage="candidate")
    marks = apps.get_model("recalls", "Mark").objects.filter(kind="model", recall__lifted_ms=None)
    versions.filter(id__in=marks.values("item")).update(stage="recalled")


def name_them_as_mlflow_does(apps, schema_editor):
    versions = apps.get_model("registry", "ModelVersion").objects
    versions.filter(stage__in=["candidate", "validated"]).update(stage="none")
    versions.filter(stage="recalled").update(stage="archived")


class Migration(migrations.Migration):
    dependencies = [("registry", "0006_export_measurements"), ("recalls", "0001_initial")]

    operations = [
        migrations.AlterField(
            "modelversion",
            "stage",
            models.CharField(
                choices=[(stage, stage) for stage in STAGES], default="candidate", max_length=12
            ),
        ),
        migrations.RunPython(name_them_as_the_machine_does, name_them_as_mlflow_does),
    ]
