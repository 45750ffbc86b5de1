from django.db import models

from platform_core.lineage.graph import Kind

KINDS = [(kind.value, kind.value) for kind in Kind]


class Recall(models.Model):
    """Somebody has marked an item as bad. It holds until it is lifted."""

    id = models.CharField(primary_key=True, max_length=40)
    team = models.ForeignKey("accounts.Team", models.CASCADE, help_text="whose item it is")
    kind = models.CharField(max_length=12, choices=KINDS)
    item = models.CharField(max_length=40, help_text="id of the item that is bad")
    label = models.CharField(max_length=300, help_text="its name, when it was recalled")
    reason = models.TextField()
    recalled_by = models.ForeignKey("accounts.User", models.PROTECT, related_name="+")
    recalled_ms = models.BigIntegerField()
    outcome = models.JSONField(default=list, help_text="a sentence for each thing that was done")
    lifted_by = models.ForeignKey("accounts.User", models.PROTECT, null=True, related_name="+")
    lifted_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "item"], condition=models.Q(lifted_ms=None), name="one_recall_an_item"
            )
        ]
        indexes = [models.Index(fields=["-recalled_ms", "id"], name="newest_recalls")]


class Mark(models.Model):
    """An item that a recall reaches: the bad one itself, and everything that was made from it."""

    recall = models.ForeignKey(Recall, models.CASCADE, related_name="marks")
    kind = models.CharField(max_length=12, choices=KINDS)
    item = models.CharField(max_length=40)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["recall", "kind", "item"], name="one_mark_an_item_and_recall")
        ]
        indexes = [models.Index(fields=["kind", "item"], name="marks_by_item")]
