from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0003_node_hardware_faults")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="rejoin_allowed",
            field=models.BooleanField(default=False, help_text="an operator let it join again by a token"),
        ),
    ]
