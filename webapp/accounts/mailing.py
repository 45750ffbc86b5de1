"""An outbox for mail: a row is written in the transaction of its cause and sent by a task that may run twice.

A refused mail is tried again. If the task dies after the server accepted a mail and before that is recorded, the mail
is sent once more with the same Message-ID, by which servers and readers recognise the duplicate.
"""

import hashlib
import logging
import smtplib
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models import F

from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS
from webapp.accounts.models import Mail, Membership, User
from webapp.base.identity import now_ms

log = logging.getLogger(__name__)

AT_ONCE = 100  # a beat later come the next
CLAIMED_MS = 10 * MINUTE_MS  # a try takes less: every step of it ends after EMAIL_TIMEOUT
LONGEST_PAUSE_MS = HOUR_MS
GIVEN_UP_AFTER_MS = 5 * DAY_MS  # as mail servers do (RFC 5321, 4.5.4.1)
KEPT_MS = 30 * DAY_MS


class Kind(StrEnum):
    """Kinds of mail that a person may switch off; each is a column of the user."""

    IDLE = "mail_idle"
    FAILURES = "mail_failures"
    ALERTS = "mail_alerts"


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail to one person about something in a team."""

    key: str
    user_id: int
    team: str
    kind: Kind
    subject: str
    text: str


def write(letters: Sequence[Letter]) -> None:
    """Belongs in the transaction of the cause. Skips people who opted out, have no address or left the team."""
    if not letters or not settings.MAIL_URL:
        return
    ids = {letter.user_id for letter in letters}
    people = {user.pk: user for user in User.objects.filter(id__in=ids, is_active=True).exclude(email="")}
    members = set(Membership.objects.filter(user__in=people).values_list("user_id", "team_id"))
    _keep(
        (letter.key, user.email, letter.subject, f"{letter.text}\n{_why(letter)}")
        for letter in letters
        if (user := people.get(letter.user_id)) and getattr(user, letter.kind)
        if user.is_superuser or (letter.user_id, letter.team) in members
    )


def write_to(addresses: Iterable[str], key: str, subject: str, text: str) -> None:
    """Writes a mail to addresses from the settings."""
    if settings.MAIL_URL:
        _keep((key, address, subject, text) for address in addresses)


def _why(letter: Letter) -> str:
    return f"You get this because it is about something of yours. Which mail you get: {settings.PUBLIC_URL}/settings/\n"


def _keep(mails: Iterable[tuple[str, str, str, str]]) -> None:
    now = now_ms()
    Mail.objects.bulk_create(
        [
            Mail(key=key, to=to, subject=_one_line(subject), text=text, made_ms=now, next_try_ms=now)
            for key, to, subject, text in mails
        ],
        ignore_conflicts=True,
    )


def _one_line(subject: str) -> str:
    return " ".join(subject.split())[:200]


def waiting() -> int:
    return Mail.objects.exclude(next_try_ms=None).count()


def deliver() -> None:
    """Sends the mails that are due. An unreachable server uses up no attempts."""
    due = list(Mail.objects.filter(next_try_ms__lte=now_ms()).order_by("next_try_ms", "id")[:AT_ONCE])
    if due:
        server: BaseEmailBackend = get_connection()
        try:
            server.open()
            for mail in due:
                _send(mail, server)
        except OSError as error:  # SMTPException is one
            log.warning("%d mails wait: %s", waiting(), _reason(error))
        finally:
            server.close()
    Mail.objects.filter(next_try_ms=None, made_ms__lt=now_ms() - KEPT_MS).delete()


def _send(mail: Mail, server: BaseEmailBackend) -> None:
    """Raises OSError when the server cannot take more mails."""
    claim = Mail.objects.filter(pk=mail.pk, next_try_ms=mail.next_try_ms)
    if not claim.update(next_try_ms=now_ms() + CLAIMED_MS, tries=F("tries") + 1):
        return  # another worker has it
    try:
        _message(mail, server).send()
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPDataError, ValueError) as error:
        _postpone(mail, error)  # ValueError: no such address can be
    except OSError as error:
        _postpone(mail, error)
        raise
    else:
        Mail.objects.filter(pk=mail.pk).update(next_try_ms=None, sent_ms=now_ms(), error="")


def _message(mail: Mail, server: BaseEmailBackend) -> EmailMessage:
    """Returns the same message each time. Auto-Submitted suppresses absence replies (RFC 3834)."""
    digest = hashlib.sha256(f"{mail.key} {mail.to}".encode()).hexdigest()[:32]
    host = urllib.parse.urlsplit(settings.PUBLIC_URL).hostname
    headers = {"Message-ID": f"<{digest}@{host}>", "Auto-Submitted": "auto-generated"}
    return EmailMessage(mail.subject, mail.text, None, [mail.to], headers=headers, connection=server)


def _postpone(mail: Mail, error: Exception) -> None:
    now, reason = now_ms(), _reason(error)
    over = now - mail.made_ms >= GIVEN_UP_AFTER_MS
    pause_ms = min(MINUTE_MS << min(mail.tries, 10), LONGEST_PAUSE_MS)
    Mail.objects.filter(pk=mail.pk).update(next_try_ms=None if over else now + pause_ms, error=reason[:200])
    log.warning("mail %d was %s: %s", mail.pk, "given up" if over else "put off", reason)


def _reason(error: Exception) -> str:
    """Omits the server's text: it may repeat what was sent to it."""
    code = getattr(error, "smtp_code", None)
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code = next((code for code, _ in error.recipients.values()), None)
    return type(error).__name__ if code is None else f"{type(error).__name__} {code}"
