from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sweeps", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="sweep",
            name="pinned",
            field=models.JSONField(
                default=dict, help_text="of the job: the code and image that its words stood for"
            ),
        ),
    ]
