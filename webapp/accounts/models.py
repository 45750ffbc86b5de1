from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from platform_core.quotas.hierarchy import TOP, Sibling, way

_WEIGHT = "a weight is a whole number from 1 to 1,000,000, not %(show_value)s"
WEIGHT_LIMITS = (MinValueValidator(1, _WEIGHT), MaxValueValidator(1_000_000, _WEIGHT))


class Role(models.TextChoices):
    VIEWER = "viewer"
    MEMBER = "member"
    LEAD = "lead"


class User(AbstractUser):
    """A person. `is_superuser` makes a platform admin, `is_staff` opens the Django admin."""

    teams: "models.ManyToManyField[Team, Membership]" = models.ManyToManyField(
        "Team", through="Membership", related_name="people"
    )
    mail_idle = models.BooleanField(
        default=True,
        help_text="mail when a job of theirs holds slots without using them, or is taken off them",
    )
    mail_failures = models.BooleanField(default=True, help_text="mail when a job of theirs has failed")
    mail_alerts = models.BooleanField(
        default=True, help_text="mail when an alert of a job or endpoint of theirs fires"
    )


class Department(models.Model):
    """A group of teams or departments that share one fair share."""

    slug = models.SlugField(primary_key=True, max_length=60)
    name = models.CharField(max_length=120)
    weight = models.PositiveIntegerField(
        default=1,
        validators=WEIGHT_LIMITS,
        help_text="share of the parent, or of the cluster, relative to what stands beside it",
    )
    parent = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="within", help_text="none: at the top"
    )

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Refuses a circle. Belongs in a transaction: it locks all departments until the end."""
        rows = Department.objects.select_for_update().order_by("slug").values_list("slug", "parent_id")
        above = {slug: Sibling(0, parent or TOP) for slug, parent in rows}
        above[self.slug] = Sibling(0, self.parent_id or TOP)
        try:
            way(above, self.slug)
        except ValueError as error:
            raise ValidationError({"parent": f"{error}; choose another parent, or none"}) from error


class Team(models.Model):
    slug = models.SlugField(primary_key=True, max_length=60)
    name = models.CharField(max_length=120)
    weight = models.PositiveIntegerField(
        default=1,
        validators=WEIGHT_LIMITS,
        help_text="share of its department, or of the cluster, relative to what stands beside it",
    )
    department = models.ForeignKey(
        Department, models.PROTECT, null=True, blank=True, related_name="teams", help_text="none: at the top"
    )
    archived_ms = models.BigIntegerField(
        null=True, blank=True, help_text="since then its members only read, and no job is accepted"
    )

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    user = models.ForeignKey(User, models.CASCADE)
    team = models.ForeignKey(Team, models.CASCADE)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "team"], name="one_membership_a_team")]


class Scope(models.TextChoices):
    """The access of a token: its owner's role in one team, or, for a platform admin, the whole platform."""

    TEAM = "team"
    ADMIN = "admin"


class ApiToken(models.Model):
    """A personal token. Only its digest is kept; the text is shown once."""

    user = models.ForeignKey(User, models.CASCADE)
    scope = models.CharField(max_length=10, choices=Scope.choices, default=Scope.TEAM)
    team = models.ForeignKey(Team, models.CASCADE, null=True, help_text="none for the scope admin")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12, help_text="first characters, so that a person recognises it")
    digest = models.CharField(max_length=64, unique=True)
    created_ms = models.BigIntegerField()
    expires_ms = models.BigIntegerField()
    last_used_ms = models.BigIntegerField(null=True)
    revoked_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(scope=Scope.TEAM, team__isnull=False)
                | models.Q(scope=Scope.ADMIN, team__isnull=True),
                name="a_team_or_the_platform",
            )
        ]


class TeamSecret(models.Model):
    """A named value, encrypted at rest, that jobs of the team ask for by name."""

    team = models.ForeignKey(Team, models.CASCADE)
    name = models.CharField(max_length=80)
    ciphertext = models.BinaryField()
    changed_ms = models.BigIntegerField()
    changed_by = models.ForeignKey(User, models.PROTECT)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_secret_a_name")]


class Mail(models.Model):
    """A mail in the outbox. Its row is written in the transaction of its cause, so none is lost."""

    key = models.CharField(max_length=200, help_text="what it tells of; of one key nobody gets two")
    to = models.EmailField()
    subject = models.CharField(max_length=200)
    text = models.TextField()
    made_ms = models.BigIntegerField()
    next_try_ms = models.BigIntegerField(null=True, db_index=True, help_text="null: it was sent, or given up")
    tries = models.PositiveIntegerField(default=0)
    sent_ms = models.BigIntegerField(null=True)
    error = models.CharField(max_length=200, blank=True, help_text="of the last try")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["key", "to"], name="one_mail_of_a_key")]
