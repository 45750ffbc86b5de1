from django.db import models

# Of a snapshot. What is uploaded is ready at once; what is registered in place is listed and hashed first.
# A deleted one keeps its row, so that its number is not given again and lineage still names it.
LISTING, HASHING, READY, FAILED, UNCHANGED = "listing", "hashing", "ready", "failed", "unchanged"
DELETED = "deleted"
STATES = (LISTING, HASHING, READY, FAILED, UNCHANGED, DELETED)
# Of something unreadable.
OPEN, DROPPED, RELEASED = "open", "dropped", "released"
# Of an access request.
REQUESTED, APPROVED, REFUSED, REVOKED = "requested", "approved", "refused", "revoked"


class Dataset(models.Model):
    """What people say of a dataset. Its versions are the snapshots of the same team and name."""

    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=120)
    owner = models.ForeignKey("accounts.User", models.SET_NULL, null=True)
    description = models.TextField(default="")
    licence = models.CharField(max_length=120, default="")
    tags = models.JSONField(default=list)
    listed = models.BooleanField(default=False, help_text="other teams see its card and may request access")
    follow_minutes = models.PositiveIntegerField(
        default=0, help_text="between looks for what has come to its source; 0: nobody looks"
    )
    fresh_minutes = models.PositiveIntegerField(
        default=0, help_text="promised: so old at most is its newest version; 0: nothing is"
    )
    followed_ms = models.BigIntegerField(default=0)
    follow_error = models.TextField(default="", help_text="why the last look made no version")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_dataset_a_name")]


class DatasetSnapshot(models.Model):
    id = models.CharField(primary_key=True, max_length=40)
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=120)
    version = models.PositiveIntegerField()
    purpose = models.CharField(max_length=40, help_text="approved purposes, separated by commas")
    projects = models.JSONField(default=list, help_text="approved projects of the team; empty: all of them")
    state = models.CharField(max_length=12, default=READY, choices=[(state, state) for state in STATES])
    error = models.TextField(default="")
    source = models.TextField(default="", help_text="where its files lie in place; empty: it was uploaded")
    paths = models.JSONField(default=list, help_text="below the source, of these files; empty: of all")
    base = models.ForeignKey("self", models.SET_NULL, null=True, help_text="whose unchanged files it shares")
    manifest = models.ForeignKey("artifacts.Manifest", models.PROTECT, null=True)
    etags = models.JSONField(default=list, help_text="of its files at the source, in the manifest's order")
    files_found = models.PositiveIntegerField(default=0)
    bytes_found = models.BigIntegerField(default=0)
    files_done = models.PositiveIntegerField(default=0)
    bytes_done = models.BigIntegerField(default=0)
    helpers = models.JSONField(
        default=dict, help_text="nodes that hash its files → why they do no more; empty: they do"
    )
    files_by_nodes = models.PositiveIntegerField(default=0, help_text="of those done, hashed by nodes")
    step = models.PositiveIntegerField(
        default=0, help_text="of its registration; a step that comes twice is dropped"
    )
    stepped_ms = models.BigIntegerField(default=0)
    checked_ms = models.BigIntegerField(null=True, help_text="when its source was last compared with it")
    check_result = models.JSONField(default=dict, help_text="what had changed there")
    created_ms = models.BigIntegerField()
    created_by = models.ForeignKey("accounts.User", models.PROTECT)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name", "version"], name="one_snapshot_a_version")
        ]


class SourceFile(models.Model):
    """A file of a registration that has not ended, as its source has it. A ready version has its manifest instead."""

    snapshot = models.ForeignKey(DatasetSnapshot, models.CASCADE, related_name="sources")
    path = models.TextField()
    size = models.BigIntegerField()
    etag = models.TextField(default="", help_text="or size and time of its last change, on a disk")
    part = models.JSONField(null=True, help_text="of the manifest, once it is hashed")
    done = models.BooleanField(default=False)
    taken_by = models.CharField(max_length=40, default="", help_text="node that hashes it")
    taken_until_ms = models.BigIntegerField(default=0, help_text="then anybody may hash it")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["snapshot", "path"], name="one_file_a_path")]
        indexes = [
            models.Index(fields=["snapshot", "id"], name="files_to_hash", condition=models.Q(done=False)),
        ]


class AccessRequest(models.Model):
    """A team asks to use a dataset for a purpose; an approved one is a grant."""

    id = models.CharField(primary_key=True, max_length=40)
    dataset = models.ForeignKey(Dataset, models.CASCADE)
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    project = models.CharField(max_length=120, default="", help_text="empty: every project of the team")
    purpose = models.CharField(max_length=40)
    reason = models.TextField(default="")
    state = models.CharField(max_length=12, default=REQUESTED)
    requested_by = models.ForeignKey("accounts.User", models.PROTECT, related_name="+")
    requested_ms = models.BigIntegerField()
    decided_by = models.ForeignKey("accounts.User", models.PROTECT, null=True, related_name="+")
    decided_ms = models.BigIntegerField(null=True)
    expires_ms = models.BigIntegerField(default=0, help_text="0: it does not expire")


class Unreadable(models.Model):
    """A shard or sample that loaders of jobs could not read and set aside."""

    snapshot = models.ForeignKey(DatasetSnapshot, models.CASCADE, related_name="+")
    shard = models.TextField(default="", help_text="its path in the dataset; empty: a sample alone")
    loader = models.CharField(max_length=100, default="", help_text="whose sample it is")
    samples = models.BigIntegerField(default=0, help_text="of that loader's source")
    sample = models.BigIntegerField(default=-1, help_text="its index there; -1: a whole shard")
    reason = models.TextField(help_text="as the newest job had it")
    jobs = models.JSONField(default=list, help_text="the newest that set it aside")
    job_count = models.PositiveIntegerField(default=0)
    first_ms = models.BigIntegerField()
    last_ms = models.BigIntegerField()
    state = models.CharField(max_length=10, default=OPEN)
    decided_by = models.ForeignKey("accounts.User", models.SET_NULL, null=True, related_name="+")
    decided_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["snapshot", "shard", "loader", "samples", "sample"], name="one_row_an_unreadable"
            )
        ]
