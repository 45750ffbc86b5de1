from django.db import models


class Manifest(models.Model):
    """What some bytes are (files, chunks, pieces and their digests) and where they lie.

    Named by its content, so several teams can have the same one; the bytes are kept once.
    """

    id = models.CharField(primary_key=True, max_length=40)
    kind = models.CharField(max_length=20)
    teams = models.ManyToManyField("accounts.Team", related_name="+", help_text="each has sent these bytes")
    source_url = models.TextField(help_text="its files lie under this store URL; empty: they were deleted")
    etags = models.JSONField(
        default=list,
        help_text="what the store called each file, in the manifest's order, when it was registered; "
        "empty: nothing that is the same for all",
    )
    total_bytes = models.BigIntegerField()
    shared_bytes = models.BigIntegerField(
        default=0, help_text="of these, what an earlier manifest has at the same place"
    )
    files = models.PositiveIntegerField()
    document = models.JSONField()
    created_ms = models.BigIntegerField()
    checked_ms = models.BigIntegerField(
        default=0, help_text="when the store's bytes were last read and compared"
    )
    used_ms = models.BigIntegerField(
        default=0, help_text="when a job or a delivery last asked for it, to the day"
    )
    moved_from = models.TextField(
        blank=True,
        default="",
        help_text="where its files lay before they were moved; empty: they are gone there",
    )
    moved_ms = models.BigIntegerField(default=0)
    checked_chunks = models.PositiveIntegerField(default=0, help_text="of the reading that is under way")

    class Meta:
        indexes = [
            models.Index(
                fields=["checked_ms", "id"], name="stored_by_check", condition=~models.Q(source_url="")
            )
        ]


class SharedFolder(models.Model):
    """Files of several manifests that lie in the store under their digests.

    A file is deleted in two steps: its digest joins `doomed`; then, while the row is locked, the file goes, the digest
    leaves `doomed` and `deletions` grows. Nobody begins to use a doomed file. Who looked into the store before the last
    deletion looks again.
    """

    source_url = models.TextField(primary_key=True)
    doomed = models.JSONField(default=list)
    deletions = models.PositiveIntegerField(default=0)


class Upload(models.Model):
    """Files on their way in through the REST API; becomes a manifest when complete."""

    id = models.CharField(primary_key=True, max_length=40)
    kind = models.CharField(max_length=20)
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    user = models.ForeignKey("accounts.User", models.CASCADE)
    name = models.CharField(max_length=120)
    source_url = models.TextField(db_index=True, default="", help_text="under which its files will lie")
    bytes = models.BigIntegerField(default=0, help_text="what the store holds because of it")
    created_ms = models.BigIntegerField()
    manifest = models.ForeignKey(Manifest, models.SET_NULL, null=True)


class UploadFile(models.Model):
    """A file of an upload that is not complete; then the manifest has it."""

    upload = models.ForeignKey(Upload, models.CASCADE, related_name="received")
    path = models.TextField(db_collation="C")  # in the order of their bytes: what lies in a folder is a range
    part = models.JSONField(null=True, help_text="of the manifest, computed while it came in")
    sha256 = models.CharField(max_length=64, default="")
    size = models.BigIntegerField(default=0)
    etag = models.TextField(default="")
    shared = models.BooleanField(default=False, help_text="an earlier version has it in the store")
    writing_ms = models.BigIntegerField(
        null=True, help_text="when its writing into the store began; 0: it broke off; null: it is there"
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upload", "path"], name="one_upload_file_a_path")]

    @property
    def own_bytes(self) -> int:
        return 0 if self.shared else self.size


class StorageLimit(models.Model):
    """How much of a kind a team may keep in the store."""

    team = models.ForeignKey("accounts.Team", models.CASCADE)
    kind = models.CharField(max_length=20)
    bytes = models.BigIntegerField()
    set_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "kind"], name="one_limit_a_kind")]
