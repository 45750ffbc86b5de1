from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0006_saved_views")]

    operations = [
        migrations.AddField(
            model_name="experiment",
            name="artifact_folder",
            field=models.CharField(
                blank=True,
                default="",
                help_text="by which MLflow clients address its files; its id when empty",
                max_length=500,
            ),
            preserve_default=False,
        ),
    ]
