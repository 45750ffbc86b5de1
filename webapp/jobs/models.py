from django.db import models
from django.db.models.fields.json import KeyTransform

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase, Stop
from platform_core.jobs.states import JobState

INPUTS = ("code", "dataset", "resume_from", "model")  # fields of a spec that name what a job is made of
_END_REASONS = [(reason.value, reason.value) for reason in EndReason]


class Job(models.Model):
    """One row a job; the fields are those of platform_core.jobs.job.Job, plus what pages and lists need at a glance."""

    id = models.CharField(primary_key=True, max_length=40)
    team = models.ForeignKey("accounts.Team", models.PROTECT)
    user = models.ForeignKey("accounts.User", models.PROTECT)
    name = models.CharField(max_length=120)
    project = models.CharField(max_length=120, blank=True)
    spec = models.JSONField()
    lineage = models.JSONField(default=dict)
    idempotency_key = models.CharField(max_length=200, null=True)
    cloned_from = models.CharField(max_length=40, blank=True)
    traceparent = models.CharField(
        max_length=60, blank=True, help_text="trace context of its submission, as W3C Trace Context has it"
    )

    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in JobState])
    version = models.PositiveIntegerField(default=1)
    stop = models.CharField(max_length=20, choices=[(s.value, s.value) for s in Stop], default=Stop.NONE)
    attempt = models.PositiveIntegerField(default=0)
    restarts = models.PositiveIntegerField(default=0)
    failures = models.JSONField(default=list)
    excluded_nodes = models.JSONField(default=list)
    latest_checkpoint = models.CharField(max_length=40, blank=True)
    latest_step = models.BigIntegerField(default=0, help_text="step of the latest checkpoint")
    latest_ms = models.BigIntegerField(null=True, help_text="when the latest checkpoint was saved")
    latest_attempt = models.PositiveIntegerField(default=0, help_text="the attempt that saved it")
    unsaved_step = models.BigIntegerField(
        default=-1, help_text="newest one at which the current attempt could not save a checkpoint"
    )
    save_ms = models.BigIntegerField(
        null=True, help_text="what its newest save took until it was on the disks of all nodes"
    )
    stop_grace_ms = models.BigIntegerField(
        default=0, help_text="what its members were given when they were told to stop"
    )
    reason = models.TextField(blank=True)
    end = models.CharField(
        max_length=20,
        choices=_END_REASONS,
        blank=True,
        help_text="why its newest attempt is stopped, or ended",
    )
    submitted_ms = models.BigIntegerField()
    waiting_since_ms = models.BigIntegerField(
        help_text="as if it had waited at a stretch: the time that its attempts took is left out"
    )
    not_before_ms = models.BigIntegerField(
        default=0, help_text="it has failed, and starts again from then on"
    )
    started_ms = models.BigIntegerField(null=True)
    finished_ms = models.BigIntegerField(null=True)

    # copies of the spec that the scheduler and the lists filter by
    gpu_type = models.SlugField(max_length=60)
    num_gpus = models.PositiveIntegerField()
    priority = models.PositiveSmallIntegerField()
    resize_to = models.PositiveIntegerField(
        default=0, help_text="it was stopped to start again with so many slots; 0 where it was not"
    )
    room_on = models.JSONField(
        default=list,
        help_text="nodes from which others were moved away for it, or to which it is moved itself",
    )
    room_until_ms = models.BigIntegerField(
        null=True, help_text="how long that counts; null is until it starts"
    )

    # what the scheduler last said of a waiting job
    wait_code = models.CharField(max_length=40, blank=True)
    wait_sentence = models.TextField(blank=True)
    wait_numbers = models.JSONField(default=dict)
    wait_place = models.JSONField(
        default=list, help_text="nodes that are kept for it, the first rank's first"
    )
    queue_position = models.PositiveIntegerField(null=True)

    # what the script last said
    step = models.BigIntegerField(null=True)
    total_steps = models.BigIntegerField(null=True)
    loss = models.FloatField(null=True)
    learning_rate = models.FloatField(null=True)
    utilisation = models.FloatField(null=True)
    busy_samples = models.PositiveIntegerField(default=0, help_text="how often utilisation was measured")
    busy_sum = models.FloatField(default=0, help_text="of all that was measured, for the mean")
    idle_since_ms = models.BigIntegerField(
        null=True, help_text="its slots have done next to nothing since then"
    )
    idle_told = models.BooleanField(default=False, help_text="its people were warned of that")
    watches_stop = models.BooleanField(
        default=False, help_text="its script looks at should_stop(), so it may save when it is told to stop"
    )
    progress_ms = models.BigIntegerField(null=True, help_text="when step was last reported")
    first_step_ms = models.BigIntegerField(
        null=True, help_text="first step of the running attempt, for its rate"
    )
    first_step = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "team", "idempotency_key"], name="one_job_an_idempotency_key"
            ),
        ]
        indexes = [
            models.Index(fields=["state", "submitted_ms"]),
            models.Index(fields=["team", "-submitted_ms", "-id"]),
            models.Index(fields=["-submitted_ms", "-id"]),
            *(models.Index(KeyTransform(name, "spec"), name=f"jobs_by_{name}") for name in INPUTS),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"


class Attempt(models.Model):
    """One gang start of a job."""

    id = models.CharField(primary_key=True, max_length=40)
    job = models.ForeignKey(Job, models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    placed_ms = models.BigIntegerField()
    running_ms = models.BigIntegerField(null=True)
    script_ms = models.BigIntegerField(null=True, help_text="when its script began its run")
    loaded_ms = models.BigIntegerField(null=True, help_text="when its script had loaded its checkpoint")
    first_step_ms = models.BigIntegerField(null=True, help_text="when its script told its first step")
    stopping_ms = models.BigIntegerField(null=True, help_text="when it was known to fail, or ordered to stop")
    ended_ms = models.BigIntegerField(null=True)
    outcome = models.CharField(max_length=200, blank=True)
    end = models.CharField(max_length=20, choices=_END_REASONS, blank=True, help_text="why it ended")
    last_step = models.BigIntegerField(
        null=True, help_text="the last that its script told, once it has ended"
    )
    kept_step = models.BigIntegerField(null=True, help_text="of the checkpoint that was left when it ended")
    lost_gpu_ms = models.BigIntegerField(default=0, help_text="slot time after that checkpoint")
    master_address = models.CharField(max_length=255)
    master_port = models.PositiveIntegerField()
    resume_checkpoint = models.CharField(max_length=40, blank=True)
    agreed_step = models.BigIntegerField(
        null=True, help_text="the last one at which all its ranks computed the same"
    )
    stacks_order = models.PositiveIntegerField(
        default=0, help_text="grows with each order of stack dumps of its ranks"
    )
    placement_reason = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="one_attempt_a_number")]
        indexes = [
            models.Index(fields=["-placed_ms"], name="newest_restarts", condition=models.Q(number__gt=1)),
            models.Index(fields=["-ended_ms"], name="newest_ends"),
        ]


class Member(models.Model):
    """One node's part of an attempt."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="members")
    node = models.ForeignKey("nodes.Node", models.PROTECT)
    rank = models.PositiveIntegerField(
        help_text="rank of the node in the gang; global ranks follow from the slots"
    )
    slots = models.JSONField(help_text="slot indices on the node")
    phase = models.CharField(max_length=20, choices=[(p.value, p.value) for p in MemberPhase])
    exit_code = models.IntegerField(null=True)
    end = models.CharField(
        max_length=20, choices=_END_REASONS, default=EndReason.SUCCEEDED,
        help_text="what ended it, once it has ended",
    )  # fmt: skip
    reason = models.TextField(blank=True)
    start_phases = models.JSONField(
        default=list, help_text="name, begin and end of what its agent did to start it, by the node's clock"
    )
    drained = models.BooleanField(
        default=False, help_text="the agent has sent everything it had of this attempt"
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "node"], name="one_member_a_node")]
        indexes = [models.Index(fields=["node", "phase"])]


class Recovery(models.Model):
    """The way from an attempt that ended to the first step of the next one. A phase is null until it is over."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="recoveries")
    attempt = models.PositiveIntegerField(help_text="number of the attempt that ended")
    reason = models.CharField(max_length=40, help_text="why it ended")
    began_ms = models.BigIntegerField(help_text="when training stood still")
    detect_ms = models.BigIntegerField(null=True)
    stop_ms = models.BigIntegerField(null=True)
    place_ms = models.BigIntegerField(null=True)
    fetch_ms = models.BigIntegerField(null=True)
    load_ms = models.BigIntegerField(null=True)
    first_step_ms = models.BigIntegerField(null=True)
    steps_lost = models.BigIntegerField(default=0)
    over = models.BooleanField(default=False, help_text="the next attempt made a step, or has ended too")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt"], name="one_recovery_an_attempt")]
        indexes = [models.Index(fields=["began_ms"], name="recoveries_by_time")]


class StackDump(models.Model):
    """The newest stack dumps of an attempt's ranks on one node, in short; the text is in the log."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="stack_dumps")
    node = models.ForeignKey("nodes.Node", models.CASCADE)
    order = models.PositiveIntegerField(help_text="the attempt's stacks_order that it answers")
    node_ms = models.BigIntegerField(help_text="when it was taken, by the node's clock")
    at_ms = models.BigIntegerField()
    ranks = models.JSONField(help_text="rank, activity, function, location, state, step, moving")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "node"], name="one_stack_dump_a_node")]


class Hang(models.Model):
    """The ranks of an attempt make no progress, as one of its nodes has noticed."""

    class Stage(models.TextChoices):
        ASKING = "asking", "the stacks of the other nodes are on their way"
        WORKING = "working", "a rank on another node still works"
        HELD = "held", "it waits for a person"
        RESTARTED = "restarted", "it was restarted"
        OVER = "over", "it went on by itself, or ended"

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="hangs")
    node = models.ForeignKey("nodes.Node", models.CASCADE, help_text="which noticed it first")
    at_ms = models.BigIntegerField(help_text="when it was noticed, or last looked into")
    since_ms = models.BigIntegerField(help_text="the last sign of progress")
    limit_ms = models.BigIntegerField(help_text="of silence, by the job's own steps")
    step = models.BigIntegerField()
    order = models.PositiveIntegerField(help_text="the stacks_order that its nodes are to answer")
    stage = models.CharField(max_length=10, choices=Stage.choices, default=Stage.ASKING)
    sentence = models.TextField(
        blank=True, help_text="which rank is stuck where, and what the others wait in"
    )
    stuck_node = models.CharField(max_length=40, blank=True, help_text="the node of the stuck rank")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt"],
                condition=models.Q(stage__in=["asking", "working", "held"]),
                name="one_open_hang_an_attempt",
            )
        ]


class Corruption(models.Model):
    """Ranks of an attempt computed different results from the same batch."""

    attempt = models.OneToOneField(Attempt, models.CASCADE, primary_key=True, related_name="corruption")
    step = models.BigIntegerField()
    at_ms = models.BigIntegerField()
    nodes = models.JSONField(help_text="of the guilty ranks")
    suspects = models.JSONField(help_text="nodes one of which is guilty, where no majority decided")
    sentence = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["at_ms"], name="corruptions_by_time")]


class Spare(models.Model):
    """A node that is kept ready for a gang with code, data and newest checkpoint."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="spares")
    node = models.ForeignKey("nodes.Node", models.CASCADE)
    slots = models.PositiveIntegerField()
    held = models.BooleanField(help_text="whether its slots are kept from other jobs")
    since_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "node"], name="one_spare_a_node")]


class LogChunk(models.Model):
    """Whole lines of one rank's output, by byte offset. Beyond a limit, and once the job has ended, many become one,
    whose text lies in the store."""

    attempt = models.ForeignKey(Attempt, models.CASCADE)
    rank = models.PositiveIntegerField()
    offset = models.BigIntegerField()
    next_offset = models.BigIntegerField()
    text = models.TextField()
    at_ms = models.BigIntegerField()
    stored = models.BooleanField(default=False, help_text="the text is an object in the store")
    cold = models.BooleanField(default=False, help_text="it is one in the cold store")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "rank", "offset"], name="one_chunk_an_offset")
        ]
        indexes = [
            models.Index(fields=["id"], name="hot_log", condition=models.Q(stored=True, cold=False)),
        ]


class UtilisationSample(models.Model):
    """How much of each GPU type was held, and how busy the held slots were, at one moment."""

    at_ms = models.BigIntegerField()
    gpu_type = models.SlugField(max_length=60)
    slots = models.PositiveIntegerField()
    held = models.PositiveIntegerField()
    utilisation = models.FloatField(null=True, help_text="mean of the held slots, 0..1")
    queued_jobs = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["gpu_type", "at_ms"], name="one_sample_a_moment")]


class ProfileOrder(models.Model):
    """A profile that was ordered of an attempt, one of the last."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="profile_orders")
    number = models.PositiveIntegerField(help_text="grows with each order of the attempt")
    steps = models.PositiveIntegerField()
    ranks = models.JSONField()
    kind = models.CharField(max_length=10, default="trace")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "number"], name="one_profile_a_number")]
