from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0002_parts_and_save_orders")]

    operations = [
        migrations.AddField(
            model_name="saveorders",
            name="answer",
            field=models.CharField(
                blank=True, help_text="the checkpoint that answered the last order", max_length=40
            ),
            preserve_default=False,
        ),
    ]
