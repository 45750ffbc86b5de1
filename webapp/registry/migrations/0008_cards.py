from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("registry", "0007_stages")]

    operations = [
        migrations.AddField(
            "modelversion",
            "licence",
            models.CharField(default="", max_length=120, help_text="under which it may be used, such as MIT"),
        ),
        migrations.AddField(
            "modelversion",
            "card",
            models.TextField(
                default="", help_text="Markdown that people add to its card: intended use, limits, ethics"
            ),
        ),
        migrations.AddField(
            "modelversion",
            "signature",
            models.JSONField(
                default=dict,
                help_text="as people gave it; empty: that of its exports (platform_core.registry.signatures)",
            ),
        ),
    ]
