from django.db import models


class Checkpoint(models.Model):
    """A verified checkpoint in the store. A job and step that was written twice (after a restart) keeps the newest."""

    id = models.CharField(primary_key=True, max_length=40)
    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="checkpoints")
    attempt = models.PositiveIntegerField()
    step = models.BigIntegerField()
    manifest = models.ForeignKey("artifacts.Manifest", models.PROTECT)
    metrics = models.JSONField(default=dict)
    saved_ms = models.BigIntegerField()
    began_ms = models.BigIntegerField(null=True, help_text="by the clock of the script; null: not known")
    blocking_ms = models.BigIntegerField(null=True, help_text="for which training stood still")
    write_ms = models.BigIntegerField(null=True, help_text="to the disks of its nodes")
    upload_ms = models.BigIntegerField(null=True, help_text="until it was whole in the store")
    nodes = models.PositiveIntegerField(default=1, help_text="that saved a part each")
    emergency = models.BooleanField(default=False, help_text="saved because the job was about to be stopped")
    bytes = models.BigIntegerField(default=0)
    pinned_by = models.CharField(
        max_length=150, blank=True, help_text="who keeps it from retention; empty: nobody"
    )
    damaged = models.TextField(
        blank=True, help_text="why it cannot be restored, as a node found; empty: nobody found anything wrong"
    )
    deleted_ms = models.BigIntegerField(null=True, help_text="when its bytes were removed")
    recalled: bool  # whether it, or what it comes from, is; of rows that `queries.with_recalls` has read

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "attempt", "step"], name="one_checkpoint_a_step")
        ]


class CheckpointPart(models.Model):
    """The files of one node of a checkpoint that is not whole yet. Deleted once the checkpoint is."""

    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="+")
    attempt = models.PositiveIntegerField()
    step = models.BigIntegerField()
    node_rank = models.PositiveIntegerField()
    nodes = models.PositiveIntegerField()
    world_size = models.PositiveIntegerField()
    manifest = models.JSONField()
    saved_ms = models.BigIntegerField()
    began_ms = models.BigIntegerField(default=0)
    blocking_ms = models.BigIntegerField(default=0)
    write_ms = models.BigIntegerField(default=0)
    emergency = models.BooleanField(default=False)
    metrics = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "attempt", "step", "node_rank"], name="one_checkpoint_part_a_node"
            )
        ]


class SweptJob(models.Model):
    """Whose left-over files in the store were removed."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, related_name="+")
    attempt = models.PositiveIntegerField(default=0, help_text="the newest ended one of which they were")


class RetentionRule(models.Model):
    """Which checkpoints of a job stay, set after its submission. No row: what its job file says."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, related_name="retention_rule")
    rule = models.JSONField(help_text="keep_last and the fields of `retention` in a job file")
    set_by = models.CharField(max_length=150)
    set_ms = models.BigIntegerField()


class RetentionTurn(models.Model):
    """When the checkpoints of a job are held against its rule. No row: once one is saved, damaged or unpinned."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, related_name="+")
    due_ms = models.BigIntegerField(db_index=True)


class SaveOrders(models.Model):
    """What the running script of a job is told: when to save, and how often."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, related_name="+")
    save_order = models.PositiveIntegerField(default=0, help_text="grows with each order to save now")
    asked_by = models.CharField(max_length=150, blank=True)
    asked_ms = models.BigIntegerField(null=True)
    answer = models.CharField(
        max_length=40, blank=True, help_text="the checkpoint that answered the last order"
    )
    interval_ms = models.BigIntegerField(default=0, help_text="set by the platform; 0: none yet")
    interval_basis = models.JSONField(default=dict, help_text="the numbers that it was computed from")
