from django.db import models


class Report(models.Model):
    """A page of a team in Markdown, with charts, tables and images of its runs; the newest version has its text."""

    id = models.CharField(primary_key=True, max_length=40)
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    title = models.CharField(max_length=200)
    version = models.PositiveIntegerField(help_text="the newest")
    created_by = models.ForeignKey("accounts.User", models.PROTECT)
    created_ms = models.BigIntegerField()
    changed_ms = models.BigIntegerField()
    deleted_ms = models.BigIntegerField(null=True)

    class Meta:
        indexes = [models.Index(fields=["team", "-changed_ms"], name="reports_of_a_team")]

    def __str__(self) -> str:
        return self.title


class ReportVersion(models.Model):
    """The title and the text as somebody saved them; never changed."""

    report = models.ForeignKey(Report, models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    title = models.CharField(max_length=200)
    text = models.TextField()
    author = models.ForeignKey("accounts.User", models.PROTECT)
    saved_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["report", "number"], name="one_report_version_a_number")
        ]


class Comment(models.Model):
    report = models.ForeignKey(Report, models.CASCADE, related_name="comments")
    author = models.ForeignKey("accounts.User", models.PROTECT)
    text = models.TextField()
    written_ms = models.BigIntegerField()


class ReadLink(models.Model):
    """Whoever has its token reads the report, without signing in, until it expires or is revoked."""

    report = models.ForeignKey(Report, models.CASCADE, related_name="links")
    token_digest = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey("accounts.User", models.PROTECT)
    created_ms = models.BigIntegerField()
    expires_ms = models.BigIntegerField()
    revoked_ms = models.BigIntegerField(null=True)
