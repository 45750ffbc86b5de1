"""Reports: writing, versions, comments, and links for readers without an account."""

from dataclasses import dataclass

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.units import plural
from webapp.accounts import credentials, permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import new_id, now_ms
from webapp.events import services as events
from webapp.reports.models import Comment, ReadLink, Report, ReportVersion

TITLE_LENGTH = 200
TEXT_LENGTH = 200_000
COMMENT_LENGTH = 10_000
LINK_DAYS = 365  # at most
LINK_PREFIX = "tmr_"  # so that a leaked one is recognised
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class NewLink:
    link: ReadLink
    token: str  # shown once; only its digest is kept


def create_report(actor: Actor, team: str, title: str, text: str = "") -> Report:
    permissions.require(actor, "report.edit", team)
    title = _title(title)
    with transaction.atomic():
        author, now = accounts.user_key(actor.username), now_ms()
        report = Report.objects.create(
            id=new_id("rep"), team_id=team, title=title, version=1,
            created_by_id=author, created_ms=now, changed_ms=now,
        )  # fmt: skip
        _add_version(report, author, _text(text))
        _record(actor, report, "ReportCreated", f"created with {plural(len(text.splitlines()), 'line')}")
    return report


def save_report(actor: Actor, report: Report, *, title: str, text: str, seen_version: int) -> Report:
    """Adds a version; the same title and text again add none. Raises stale_version if somebody saved in between."""
    _require(actor, "report.edit", report)
    title, text = _title(title), _text(text)
    with transaction.atomic():
        locked = Report.objects.select_for_update().get(id=report.id)
        newest = locked.versions.get(number=locked.version)
        if (newest.title, newest.text) == (title, text):
            return locked
        if locked.version != seen_version:
            raise TrainmasterError("stale_version", what=f"report {locked.title}", seen=seen_version)
        return _save(actor, locked, title, text, "saved")


def restore_version(actor: Actor, report: Report, number: int) -> Report:
    """Adds a version with the title and text of an earlier one."""
    _require(actor, "report.edit", report)
    with transaction.atomic():
        locked = Report.objects.select_for_update().get(id=report.id)
        earlier = locked.versions.filter(number=number).first()
        if earlier is None:
            raise TrainmasterError("not_found", what=f"version {number} of this report")
        return _save(actor, locked, earlier.title, earlier.text, f"restored from version {number}")


def delete_report(actor: Actor, report: Report) -> None:
    """Its page, its comments and its links answer no more; `restore_report` brings them back."""
    _require(actor, "report.delete", report, report.created_by.username)
    with transaction.atomic():
        Report.objects.filter(id=report.id, deleted_ms=None).update(deleted_ms=now_ms())
        _record(actor, report, "ReportDeleted", "deleted")


def restore_report(actor: Actor, report: Report) -> None:
    _require(actor, "report.delete", report, report.created_by.username)
    with transaction.atomic():
        Report.objects.filter(id=report.id).update(deleted_ms=None)
        _record(actor, report, "ReportRestored", "restored")


def add_comment(actor: Actor, report: Report, text: str) -> Comment:
    _require(actor, "report.edit", report)
    text = text.strip()
    if not text:
        raise TrainmasterError("request_invalid", what="the comment", why="it is empty")
    if len(text) > COMMENT_LENGTH:
        why = f"it has {len(text):,} characters; the limit is {COMMENT_LENGTH:,}"
        raise TrainmasterError("request_invalid", what="the comment", why=why)
    with transaction.atomic():
        _record(actor, report, "ReportCommented", "commented on")
        return Comment.objects.create(
            report=report, author_id=accounts.user_key(actor.username), text=text, written_ms=now_ms()
        )


def delete_comment(actor: Actor, report: Report, comment_id: int) -> None:
    comment = report.comments.select_related("author").filter(id=comment_id).first()
    if comment is None:
        raise TrainmasterError("not_found", what=f"comment {comment_id} of this report")
    _require(actor, "report.delete", report, comment.author.username)
    with transaction.atomic():
        comment.delete()
        _record(actor, report, "ReportCommentDeleted", f"comment of {comment.author.username} deleted")


def create_link(actor: Actor, report: Report, days: int) -> NewLink:
    _require(actor, "report.edit", report)
    if not 1 <= days <= LINK_DAYS:
        raise TrainmasterError(
            "request_invalid",
            what="days",
            why=f"{days} is not between 1 and {LINK_DAYS}; choose fewer or more",
        )
    token, now = credentials.new_text(LINK_PREFIX), now_ms()
    with transaction.atomic():
        link = ReadLink.objects.create(
            report=report, token_digest=credentials.digest(token),
            created_by_id=accounts.user_key(actor.username), created_ms=now, expires_ms=now + days * DAY_MS,
        )  # fmt: skip
        _record(actor, report, "ReportShared", f"shared by a link for {plural(days, 'day')}")
    return NewLink(link, token)


def revoke_link(actor: Actor, report: Report, link_id: int) -> None:
    _require(actor, "report.edit", report)
    with transaction.atomic():
        if not report.links.filter(id=link_id).exists():
            raise TrainmasterError("not_found", what=f"link {link_id} of this report")
        if report.links.filter(id=link_id, revoked_ms=None).update(revoked_ms=now_ms()):
            _record(actor, report, "ReportLinkRevoked", "link revoked")


def _require(actor: Actor, action: str, report: Report, owner: str | None = None) -> None:
    permissions.require(actor, action, report.team_id, owner, what=f"report {report.id}")


def _save(actor: Actor, report: Report, title: str, text: str, how: str) -> Report:
    report.title, report.version, report.changed_ms = title, report.version + 1, now_ms()
    report.save(update_fields=["title", "version", "changed_ms"])
    _add_version(report, accounts.user_key(actor.username), text)
    _record(actor, report, "ReportSaved", f"{how} as version {report.version}")
    return report


def _add_version(report: Report, author: int, text: str) -> None:
    ReportVersion.objects.create(
        report=report, number=report.version, title=report.title, text=text,
        author_id=author, saved_ms=report.changed_ms,
    )  # fmt: skip


def _record(actor: Actor, report: Report, kind: str, cause: str) -> None:
    events.record(
        kind, f"report:{report.id}", actor=actor.name, team=report.team_id, cause=cause,
        data={"name": report.title},
    )  # fmt: skip


def _title(title: str) -> str:
    title = " ".join(title.split())
    if not 1 <= len(title) <= TITLE_LENGTH:
        why = f"it has {len(title)} characters; give it 1 to {TITLE_LENGTH}"
        raise TrainmasterError("request_invalid", what="the title", why=why)
    return title


def _text(text: str) -> str:
    if len(text) > TEXT_LENGTH:
        why = f"it has {len(text):,} characters; the limit is {TEXT_LENGTH:,}"
        raise TrainmasterError("request_invalid", what="the text", why=why)
    return text.replace("\r\n", "\n")
