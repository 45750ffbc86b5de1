from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="team",
            name="archived_ms",
            field=models.BigIntegerField(
                blank=True, help_text="since then its members only read, and no job is accepted", null=True
            ),
        ),
    ]
