"""Mail is kept with what it tells of, and sent once, whatever the server and the workers do."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import LazySettings
from django.core import mail as django_mail
from django.core.mail.backends.locmem import EmailBackend
from django.db import transaction
from django.test import Client

from platform_core.units import DAY_MS, MINUTE_MS
from tests.webapp.accounts import mail_server
from tests.webapp.accounts.mail_server import MailServer
from tests.webapp.conftest import Cast
from webapp.accounts import mailing, tasks
from webapp.accounts.mailing import Kind, Letter
from webapp.accounts.models import Mail, Membership, User
from webapp.base.identity import now_ms

Browser = Callable[[User], Client]
SMTP = "django.core.mail.backends.smtp.EmailBackend"


@pytest.fixture(autouse=True)
def platform(settings: LazySettings) -> None:
    settings.MAIL_URL = "smtp://mail.example.org:25"
    settings.PUBLIC_URL = "https://train.example.org"


@pytest.fixture
def alice(owner: User) -> User:
    owner.email = "alice@example.org"
    owner.save()
    return owner


@pytest.fixture
def server(settings: LazySettings) -> Iterator[MailServer]:
    with mail_server.running() as server:
        settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = SMTP, "127.0.0.1", server.port
        yield server


def letter(person: User, key: str = "failed:job-1", **changes: Any) -> Letter:
    told = {"key": key, "user_id": person.pk, "team": "vision", "kind": Kind.FAILURES}
    return Letter(**{**told, "subject": f"About {key}", "text": "It has failed.\n", **changes})


def make_due() -> None:
    Mail.objects.exclude(next_try_ms=None).update(next_try_ms=now_ms())


def test_a_mail_is_written_and_sent_once_however_often_it_is_told_and_the_task_runs(alice: User) -> None:
    for _ in range(2):
        mailing.write([letter(alice)])
    assert django_mail.outbox == []
    for _ in range(3):
        tasks.deliver_mail()
    [sent] = django_mail.outbox
    assert (sent.subject, sent.to) == ("About failed:job-1", ["alice@example.org"])
    assert sent.body == (
        "It has failed.\n\nYou get this because it is about something of yours. "
        "Which mail you get: https://train.example.org/settings/\n"
    )
    assert sent.extra_headers["Auto-Submitted"] == "auto-generated"


def test_a_mail_of_what_was_taken_back_is_not_there(alice: User) -> None:
    with transaction.atomic():
        mailing.write([letter(alice)])
        transaction.set_rollback(True)
    mailing.deliver()
    assert django_mail.outbox == []


@pytest.mark.parametrize("why", ["no address", "not wanted", "left the team", "left", "no server"])
def test_who_cannot_or_may_not_or_does_not_want_to_get_it_gets_nothing(
    alice: User, settings: LazySettings, why: str
) -> None:
    person = User.objects.filter(pk=alice.pk)
    match why:
        case "no address":
            person.update(email="")
        case "not wanted":
            person.update(mail_failures=False)
        case "left the team":
            Membership.objects.filter(user=alice).delete()
        case "left":
            person.update(is_active=False)
        case "no server":
            settings.MAIL_URL = ""
    mailing.write([letter(alice)])
    assert not Mail.objects.exists()


def test_many_are_written_in_as_many_statements_as_one(
    alice: User, django_assert_num_queries: Callable[[int], Any]
) -> None:
    for count in (1, 50):
        with django_assert_num_queries(3):
            mailing.write([letter(alice, f"{count}:{number}") for number in range(count)])
    assert Mail.objects.count() == 51


def test_nothing_is_lost_while_the_server_is_down_however_long(
    alice: User, server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    mailing.write([letter(alice, f"failed:{number}") for number in range(3)])
    Mail.objects.update(made_ms=now_ms() - 20 * DAY_MS)
    server.shutdown()
    server.server_close()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            mailing.deliver()
    assert set(Mail.objects.values_list("tries", "sent_ms")) == {(0, None)}
    assert "3 mails wait: ConnectionRefusedError" in caplog.text
    with mail_server.running(server.port) as again:
        mailing.deliver()
        assert sorted(each["Subject"] for each in again.taken) == [f"About failed:{n}" for n in range(3)]
    assert mailing.waiting() == 0


def test_an_address_that_is_refused_holds_up_nobody_else_and_is_given_up_after_days(
    alice: User, member: User, server: MailServer
) -> None:
    User.objects.filter(pk=member.pk).update(email="bob@example.org")
    server.refused["alice@example.org"] = "550 <alice@example.org> is not here"
    mailing.write([letter(alice), letter(member)])
    mailing.deliver()
    assert [each["To"] for each in server.taken] == ["bob@example.org"]
    refused = Mail.objects.get(to="alice@example.org")
    assert (refused.tries, refused.error) == (1, "SMTPRecipientsRefused 550")
    mailing.deliver()
    assert Mail.objects.get(pk=refused.pk).tries == 1  # it is not due yet
    Mail.objects.filter(pk=refused.pk).update(made_ms=now_ms() - 5 * DAY_MS)
    make_due()
    mailing.deliver()
    assert Mail.objects.get(pk=refused.pk).next_try_ms is None
    server.refused.clear()
    mailing.deliver()
    assert len(server.taken) == 1


def test_pauses_grow_up_to_an_hour(alice: User, server: MailServer) -> None:
    server.at_data = "451 later"
    mailing.write([letter(alice)])
    pauses = []
    for _ in range(8):
        make_due()
        before = now_ms()
        mailing.deliver()
        pauses.append(round((Mail.objects.get().next_try_ms or 0) - before) // MINUTE_MS)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    server.at_data = "354 go on"
    make_due()
    mailing.deliver()
    assert len(server.taken) == 1


def test_a_server_that_is_shut_in_the_middle_gets_the_rest_later(alice: User, server: MailServer) -> None:
    mailing.write([letter(alice, f"failed:{number}") for number in range(3)])
    server.at_data = "421 closing"
    mailing.deliver()
    assert server.taken == []
    server.at_data = "354 go on"
    make_due()
    mailing.deliver()
    assert len(server.taken) == 3
    mailing.deliver()
    assert len(server.taken) == 3


class Twice(EmailBackend):
    """While one worker sends the first of what it found, another begins and ends."""

    begun = False

    def send_messages(self, messages: Any) -> int:
        if not Twice.begun:
            Twice.begun = True
            mailing.deliver()
        return super().send_messages(messages)


def test_two_workers_at_once_do_not_send_the_same(alice: User, settings: LazySettings) -> None:
    mailing.write([letter(alice, f"failed:{number}") for number in range(3)])
    settings.EMAIL_BACKEND, Twice.begun = f"{__name__}.Twice", False
    mailing.deliver()
    assert Twice.begun
    assert sorted(sent.subject for sent in django_mail.outbox) == [f"About failed:{n}" for n in range(3)]


class Dies(EmailBackend):
    """The server takes the mail, and the worker ends before it can note that."""

    def send_messages(self, messages: Any) -> int:
        super().send_messages(messages)
        raise SystemExit


def test_a_worker_that_dies_leaves_the_mail_to_another_which_sends_it_as_the_same(
    alice: User, settings: LazySettings
) -> None:
    mailing.write([letter(alice)])
    settings.EMAIL_BACKEND, usual = f"{__name__}.Dies", settings.EMAIL_BACKEND
    with pytest.raises(SystemExit):
        mailing.deliver()
    settings.EMAIL_BACKEND = usual
    mailing.deliver()
    assert len(django_mail.outbox) == 1  # it may be on its way still
    make_due()
    mailing.deliver()
    first, second = (sent.extra_headers["Message-ID"] for sent in django_mail.outbox)
    assert first == second
    assert first.endswith("@train.example.org>")


def test_a_name_cannot_bring_headers_of_its_own(alice: User) -> None:
    mailing.write([letter(alice, subject="Trainmaster: job\r\nBcc: all@example.org has failed")])
    mailing.deliver()
    assert django_mail.outbox[0].subject == "Trainmaster: job Bcc: all@example.org has failed"


def test_an_address_that_cannot_be_one_stops_nobody(alice: User) -> None:
    mailing.write_to(["ops@example.org\nBcc: x@example.org", "lead@example.org"], "report:1", "Week", "Text")
    mailing.deliver()
    assert [sent.to for sent in django_mail.outbox] == [["lead@example.org"]]
    assert mailing.waiting() == 1


def test_what_is_over_is_forgotten_after_a_month(alice: User) -> None:
    mailing.write([letter(alice, "old"), letter(alice, "new"), letter(alice, "waits")])
    mailing.deliver()
    Mail.objects.exclude(key="new").update(made_ms=now_ms() - 31 * DAY_MS)
    Mail.objects.filter(key="waits").update(next_try_ms=now_ms() + DAY_MS)
    mailing.deliver()
    assert set(Mail.objects.values_list("key", flat=True)) == {"new", "waits"}


def test_a_person_chooses_which_mail_they_get(cast: Cast, alice: User, browser: Browser) -> None:
    page = browser(alice).get("/settings/").content.decode()
    assert 'name="mail_idle" checked>' in page
    assert 'name="mail_failures" checked>' in page
    assert "To alice@example.org." in page
    saved = browser(alice).post("/settings/mail/", {"mail_failures": "on"}, follow=True).content.decode()
    assert "Your choice of mail is saved." in saved
    assert 'name="mail_idle">' in saved
    alice.refresh_from_db()
    assert (alice.mail_idle, alice.mail_failures) == (False, True)


@pytest.mark.parametrize(
    ("url", "email", "sentence"),
    [
        ("", "alice@example.org", "No mail is sent: the platform has no mail server."),
        ("smtp://m:25", "", "No mail is sent: your profile has no address."),
    ],
)
def test_where_nothing_can_be_sent_the_settings_say_why(
    alice: User, browser: Browser, settings: LazySettings, url: str, email: str, sentence: str
) -> None:
    settings.MAIL_URL = url
    User.objects.filter(pk=alice.pk).update(email=email)
    assert sentence in browser(alice).get("/settings/").content.decode()
