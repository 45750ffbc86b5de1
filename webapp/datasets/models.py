from django.db import models


class DatasetSnapshot(models.Model):
    id = models.CharField(primary_key=True, max_length=40)
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=120)
    version = models.PositiveIntegerField()
    purpose = models.CharField(max_length=40)
    manifest = models.ForeignKey("artifacts.Manifest", models.PROTECT)
    created_ms = models.BigIntegerField()
    created_by = models.ForeignKey("accounts.User", models.PROTECT)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name", "version"], name="one_snapshot_a_version")
        ]
