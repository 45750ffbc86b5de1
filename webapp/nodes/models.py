from django.db import models

from platform_core.cluster.device_health import Stage
from platform_core.cluster.health import NodeState


class Node(models.Model):
    id = models.CharField(primary_key=True, max_length=40)
    hostname = models.CharField(max_length=120)
    rack = models.CharField(max_length=60)
    block = models.CharField(max_length=60, blank=True)
    gpu_type = models.SlugField(max_length=60)
    labels = models.JSONField(default=dict, help_text="as its agent says")
    operator_labels = models.JSONField(default=dict, help_text="these count before the agent's")
    taints = models.JSONField(default=list, help_text="keep away jobs that do not tolerate them")
    cpus = models.PositiveIntegerField()
    memory_bytes = models.BigIntegerField()
    disk_bytes = models.BigIntegerField()
    agent_version = models.CharField(max_length=40)
    versions = models.JSONField(
        default=dict, help_text="of what runs jobs: python, torch, cuda, nccl, driver"
    )
    hardware_faults = models.JSONField(default=list, help_text="sentences: GPUs that do not answer")
    holds_ready_files = models.BooleanField(
        default=False, help_text="its agent takes orders to have files ready that no attempt needs yet"
    )
    address = models.CharField(max_length=255)
    transfer_port = models.PositiveIntegerField()
    rendezvous_port_low = models.PositiveIntegerField()
    rendezvous_port_high = models.PositiveIntegerField()
    receive_cap = models.BigIntegerField(default=0, help_text="bytes per second of models; 0: no cap")
    send_cap = models.BigIntegerField(default=0, help_text="bytes per second of models; 0: no cap")
    state = models.CharField(
        max_length=10, choices=[(s.value, s.value) for s in NodeState], default=NodeState.LOST
    )
    state_since_ms = models.BigIntegerField()
    state_reason = models.TextField(blank=True, help_text="why it came into this state")
    drain_requested = models.BooleanField(default=False)
    leaving_ms = models.BigIntegerField(null=True, help_text="when it goes, by the notice that drained it")
    last_seen_ms = models.BigIntegerField(default=0, help_text="durable copy; the live one is in Redis")
    out_of_service = models.TextField(
        blank=True, help_text="why it takes no jobs, by the health of its devices"
    )
    wanted_revision = models.BigIntegerField(default=1)
    credential_digest = models.CharField(max_length=64, unique=True)
    revoked_ms = models.BigIntegerField(null=True)
    rejoin_allowed = models.BooleanField(default=False, help_text="an operator let it join again by a token")
    joined_ms = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["state"])]

    def __str__(self) -> str:
        return self.hostname

    @property
    def all_labels(self) -> dict[str, str]:
        return {**self.labels, **self.operator_labels}


class Slot(models.Model):
    """One GPU, or one CPU slot. `attempt_id` is its only holder, put there by a guarded update of an empty slot."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="slots")
    index = models.PositiveIntegerField()
    name = models.CharField(max_length=120)
    uuid = models.CharField(max_length=80, blank=True)
    memory_bytes = models.BigIntegerField(default=0)
    island = models.PositiveIntegerField(
        default=0, help_text="slots of a node with an equal number are linked; 0: with no other"
    )
    attempt_id = models.CharField(max_length=40, null=True, db_index=True)
    out_of_service = models.TextField(blank=True, help_text="why it takes no jobs, by its own health")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "index"], name="one_slot_an_index")]


class DeviceFinding(models.Model):
    """A rule of device health about a slot or a node. What is over stays as the node's history."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="findings")
    slot = models.IntegerField(help_text="index; -1: the whole node")
    code = models.CharField(max_length=40, help_text="of the rule")
    stage = models.CharField(max_length=10, choices=[(stage.value, stage.value) for stage in Stage])
    since_ms = models.BigIntegerField()
    began_ms = models.BigIntegerField()
    value = models.FloatField()
    worst = models.FloatField()
    closed_ms = models.BigIntegerField(null=True)
    returned_by = models.CharField(max_length=150, blank=True, help_text="the operator who returned it")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "slot", "code"],
                condition=models.Q(closed_ms=None),
                name="one_open_finding_a_rule",
            )
        ]
        indexes = [models.Index(fields=["node", "-began_ms"], name="findings_of_a_node")]


class MaintenanceWindow(models.Model):
    """Nodes that are not to be used for a time."""

    nodes = models.JSONField(help_text="ids")
    begin_ms = models.BigIntegerField()
    end_ms = models.BigIntegerField()
    reason = models.CharField(max_length=200, blank=True)
    booked_by = models.CharField(max_length=150)
    begun = models.BooleanField(default=False)
    drained = models.JSONField(default=list, help_text="ids of those that it drained and gives back")
    over = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["begin_ms"], condition=models.Q(over=False), name="windows_ahead")]


class BootstrapToken(models.Model):
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True)
    created_ms = models.BigIntegerField()
    expires_ms = models.BigIntegerField()
    revoked_ms = models.BigIntegerField(null=True)
