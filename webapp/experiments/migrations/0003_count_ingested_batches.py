from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0002_initial")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="ingested",
            field=models.BigIntegerField(default=0, help_text="batches of metric values kept so far"),
        ),
    ]
