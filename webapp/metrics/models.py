"""Metric points as they lie in the database. docs/explanation/metrics.md says why."""

from django.db import models


class Subject(models.Model):
    """What reports metrics: a run. Each change of its points makes the next version, under a lock of this row."""

    id = models.CharField(primary_key=True, max_length=40)
    version = models.BigIntegerField()
    compacted_version = models.BigIntegerField(default=0, help_text="the version that compaction last saw")
    changed_ms = models.BigIntegerField()


class Source(models.Model):
    """The batch that a sender reached: a sequence number at or below it was kept before."""

    subject = models.CharField(max_length=40)
    source = models.CharField(max_length=64)
    sequence = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subject", "source"], name="one_sequence_a_source")]


class Series(models.Model):
    """One metric of a subject, and the summary of the points that count: the fields of platform_core's BLOCK."""

    subject = models.ForeignKey(Subject, models.CASCADE, related_name="series")
    key = models.CharField(max_length=250)
    version = models.BigIntegerField(help_text="of the subject, when the points last changed")
    least_attempt = models.IntegerField()
    greatest_attempt = models.IntegerField()
    pending_segments = models.IntegerField(help_text="small ones written since the last compaction")
    pending_points = models.IntegerField()
    count = models.BigIntegerField()
    finite = models.BigIntegerField()
    first = models.FloatField()
    first_step = models.BigIntegerField()
    first_ms = models.BigIntegerField()
    last = models.FloatField()
    last_step = models.BigIntegerField()
    last_ms = models.BigIntegerField()
    low_ms = models.BigIntegerField()
    high_ms = models.BigIntegerField()
    min = models.FloatField(null=True, help_text="of the finite values; null without any")
    min_step = models.BigIntegerField(null=True)
    max = models.FloatField(null=True)
    max_step = models.BigIntegerField(null=True)
    sum = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subject", "key"], name="one_series_a_key")]


class Segment(models.Model):
    """A stretch of a series. Segments of a series do not overlap in the order of step and time."""

    series = models.ForeignKey(Series, models.CASCADE, related_name="segments", db_index=False)
    version = models.BigIntegerField(help_text="of the subject, when the newest of these points came")
    first_step = models.BigIntegerField()
    first_ms = models.BigIntegerField(help_text="of the first step")
    last_step = models.BigIntegerField()
    last_ms = models.BigIntegerField()
    low_ms = models.BigIntegerField(help_text="the earliest")
    high_ms = models.BigIntegerField()
    count = models.IntegerField()
    least_attempt = models.IntegerField()
    greatest_attempt = models.IntegerField()
    compacted = models.BooleanField()
    blocks = models.BinaryField(help_text="summaries of 512 points each")
    payload = models.BinaryField(help_text="the points; see codec.py")

    class Meta:
        indexes = [models.Index(fields=["series", "first_step", "first_ms"], name="segments_in_order")]
