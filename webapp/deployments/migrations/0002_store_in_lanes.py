from django.db import migrations, models


class Migration(migrations.Migration):
    """The store has a name among the sources of a lane."""

    dependencies = [("deployments", "0001_initial")]

    operations = [
        migrations.AlterField(
            model_name="worker",
            name="lanes",
            field=models.JSONField(
                default=list, help_text='by lane node ids in order of preference, "store" is the store'
            ),
        ),
        migrations.RunSQL(
            """UPDATE deployments_worker SET lanes = replace(lanes::text, '""', '"store"')::jsonb""",
            migrations.RunSQL.noop,
        ),
    ]
