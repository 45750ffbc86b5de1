import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0004_stack_dumps_and_hangs"),
    ]

    operations = [
        migrations.CreateModel(
            name="ProfileOrder",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField(help_text="grows with each order")),
                ("steps", models.PositiveIntegerField()),
                ("ranks", models.JSONField()),
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="profile_order",
                        to="jobs.attempt",
                    ),
                ),
            ],
        ),
    ]
