from django.db import models

from platform_core.storage.holdings import Age
from platform_core.storage.leftovers import LeftoverKind


class StoredDay(models.Model):
    """What a team had of a kind in the store at the end of a day, or now, on the newest."""

    team = models.ForeignKey("accounts.Team", models.CASCADE)
    kind = models.CharField(max_length=20, help_text="code, dataset, model, checkpoint, run files, logs")
    day = models.PositiveIntegerField(help_text="days since 1970-01-01, UTC")
    bytes = models.BigIntegerField()
    items = models.BigIntegerField()
    cold_bytes = models.BigIntegerField(default=0, help_text="of these bytes, in the cold store")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "kind", "day"], name="one_figure_a_day")]
        indexes = [models.Index(fields=["day"], name="stored_by_day")]


class StoredShare(models.Model):
    """A part of what a team has in the store, by everything that tells parts apart, as it was accounted last."""

    team = models.ForeignKey("accounts.Team", models.CASCADE)
    kind = models.CharField(max_length=20)
    project = models.CharField(max_length=120, blank=True, help_text="empty: of none")
    owner = models.CharField(
        max_length=150, blank=True, help_text="username of the person whose upload, job or run it is"
    )
    age = models.CharField(max_length=20, choices=[(age.value, age.value) for age in Age])
    bytes = models.BigIntegerField()
    items = models.BigIntegerField()
    cold_bytes = models.BigIntegerField()


class StorageBudget(models.Model):
    """What a team means to spend on the store a month."""

    team = models.OneToOneField("accounts.Team", models.CASCADE, primary_key=True)
    month_micro_dollars = models.BigIntegerField()


class Leftover(models.Model):
    """Bytes that nobody needs any more; deleted after a time of grace, unless somebody keeps them."""

    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in LeftoverKind])
    item = models.CharField(max_length=40, help_text="id of the upload or manifest")
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=120)
    bytes = models.BigIntegerField()
    found_ms = models.BigIntegerField()
    kept_by = models.ForeignKey("accounts.User", models.SET_NULL, null=True, related_name="+")
    deleted_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "item"], name="one_leftover_an_item")]
        indexes = [models.Index(fields=["deleted_ms", "-bytes"], name="leftovers_by_size")]


class Damage(models.Model):
    """A file in the store that is not what was registered, as the scrub found."""

    manifest = models.CharField(
        max_length=40, help_text="id; not a reference, which would keep it from deletion"
    )
    path = models.TextField()
    kind = models.CharField(max_length=20)
    name = models.CharField(max_length=160, help_text="of what the file belongs to")
    why = models.TextField()
    bytes = models.BigIntegerField()
    found_ms = models.BigIntegerField()
    mender = models.CharField(max_length=40, blank=True, help_text="node that is asked to write it back")
    asks = models.PositiveIntegerField(default=0, help_text="how often a node was asked")
    read_ms = models.BigIntegerField(default=0, help_text="when it was last read again")
    mended_ms = models.BigIntegerField(null=True, help_text="when the scrub found it right again")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["manifest", "path"], name="one_damage_a_file")]
        indexes = [models.Index(fields=["mended_ms", "-found_ms"], name="damage_by_time")]
