"""Notices reach their channels once, are tried again, and go nowhere they must not."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from platform_core.errors import TrainmasterError
from platform_core.units import HOUR_MS, MINUTE_MS
from tests.webapp.conftest import Cast
from webapp.accounts.models import Mail
from webapp.accounts.queries import actor_of
from webapp.alerts import evaluation, notices, readings, services
from webapp.alerts.models import Alert, Channel, Notice
from webapp.base.identity import now_ms
from webapp.events.models import Event


class Receiver:
    """A server that keeps what it is sent and answers as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(outer.answers)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hooks/secret-path"

    def documents(self) -> list[Any]:
        return [json.loads(body) for _, body in self.requests]


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.OUTBOUND_HOSTS = ["127.0.0.1"]
    settings.LEASE_SECONDS = 60  # the transaction of a test lasts longer than one evaluation
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Percent of its storage that each team uses: a measure that a test can move."""
    used = {"vision": 95.0}

    def read(at_ms: int) -> list[readings.Reading]:
        return [readings.Reading(value, team, team, team) for team, value in used.items()]

    monkeypatch.setitem(readings.READS, "team.storage", read)  # type: ignore[arg-type]
    return used


def channel(cast: Cast, kind: str, address: str, **options: Any) -> Channel:
    return services.add_channel(actor_of(cast.lead), "vision", f"a {kind}", kind, address, **options)


def evaluate(at_ms: int) -> None:
    assert evaluation.evaluate(at_ms)
    notices.deliver()


def test_a_webhook_is_told_once_and_of_the_end(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    channel(cast, "webhook", receiver.url, key="a shared key")
    now = now_ms()
    for second in range(3):
        evaluate(now + second)
    (document,) = receiver.documents()
    assert document["state"] == "firing"
    (alert,) = document["alerts"]
    assert (alert["rule"], alert["team"]) == ("storage_nearly_full", "vision")
    assert "vision has used 95 % of its storage" in document["text"]
    assert f"/alerts/{alert['id']}/" in document["text"]
    assert "What to do: Delete runs" in document["text"]
    storage["vision"] = 50
    evaluate(now + MINUTE_MS)
    evaluate(now + 3 * MINUTE_MS)
    assert [document["state"] for document in receiver.documents()] == ["firing", "resolved"]
    assert re.match(r"Over after .+\. Last reading: vision has used 95 %", receiver.documents()[1]["text"])
    kinds = Event.objects.filter(subject_kind="alert").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["AlertFiring", "AlertResolved"]


def test_a_webhook_is_signed(cast: Cast, receiver: Receiver, storage: dict[str, float]) -> None:
    channel(cast, "webhook", receiver.url, key="a shared key")
    evaluate(now_ms())
    headers, body = receiver.requests[0]
    signed = headers["x-trainmaster-time"].encode() + b"." + body
    expected = hmac.new(b"a shared key", signed, hashlib.sha256).hexdigest()
    assert headers["x-trainmaster-signature"] == f"sha256={expected}"
    assert headers["host"] == receiver.url.split("/")[2]


def test_slack_and_pagerduty_get_their_forms(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    channel(cast, "slack", receiver.url)
    channel(cast, "pagerduty", receiver.url, key="routing")
    now = now_ms()
    evaluate(now)
    slack, page = sorted(receiver.documents(), key=lambda document: "routing_key" in document)
    assert slack["text"].startswith("*The storage of a team is nearly full (vision)*")
    assert (page["routing_key"], page["event_action"]) == ("routing", "trigger")
    storage["vision"] = 10
    evaluate(now + MINUTE_MS)
    evaluate(now + 3 * MINUTE_MS)
    over = [document for document in receiver.documents() if "routing_key" in document][-1]
    assert (over["event_action"], over["dedup_key"]) == ("resolve", page["dedup_key"])


def test_a_refused_notice_is_tried_again_under_the_same_id(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    channel(cast, "webhook", receiver.url)
    receiver.answers = 503
    evaluate(now_ms())
    notice = Notice.objects.get()
    assert (notice.sent_ms, notice.tries, notice.error) == (None, 1, "127.0.0.1 answered 503")
    assert notice.next_try_ms is not None
    notices.deliver()
    assert len(receiver.requests) == 1, "its pause is not over"
    receiver.answers = 204
    Notice.objects.update(next_try_ms=1)
    notices.deliver()
    notices.deliver()
    assert len({headers["x-trainmaster-notice"] for headers, _ in receiver.requests}) == 1
    assert len(receiver.requests) == 2
    assert Notice.objects.get().sent_ms is not None


def test_a_notice_that_nobody_takes_is_given_up_and_says_so(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    channel(cast, "webhook", receiver.url)
    receiver.answers = 500
    evaluate(now_ms())
    Notice.objects.update(next_try_ms=1, made_ms=1)
    notices.deliver()
    notice = Notice.objects.filter(next_try_ms=None).first()
    assert notice is None or notice.error


def test_mail_goes_through_the_outbox_once(cast: Cast, storage: dict[str, float], settings: Any) -> None:
    settings.MAIL_URL = "smtp://127.0.0.1:1"
    channel(cast, "mail", "a@example.org, b@example.org")
    now = now_ms()
    evaluate(now)
    evaluate(now + 1)
    assert sorted(Mail.objects.values_list("to", flat=True)) == ["a@example.org", "b@example.org"]
    assert Mail.objects.first().subject == "Trainmaster: The storage of a team is nearly full (vision)"  # type: ignore[union-attr]


def test_two_evaluations_at_once_tell_once(cast: Cast, receiver: Receiver, storage: dict[str, float]) -> None:
    channel(cast, "webhook", receiver.url)
    now = now_ms()
    evaluation.evaluate(now)
    evaluation.evaluate(now)
    notices.deliver()
    notices.deliver()
    assert len(receiver.requests) == 1


def test_teams_and_severities_choose_the_channels(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    root = actor_of(cast.admin)
    services.add_channel(root, "nlp", "theirs", "webhook", receiver.url)
    services.add_channel(root, "", "cluster alone", "webhook", receiver.url)
    services.add_channel(root, "", "critical", "webhook", receiver.url, least="critical", every_team=True)
    every = services.add_channel(root, "", "all", "webhook", receiver.url, every_team=True)
    evaluate(now_ms())
    assert [notice.channel_id for notice in Notice.objects.all()] == [every.pk]


def test_a_silence_holds_notices_back_until_it_ends(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    channel(cast, "webhook", receiver.url)
    member = actor_of(cast.member)
    held = services.silence(
        member, "vision", lasts_ms=HOUR_MS, reason="we clean up", rule="storage_nearly_full"
    )
    now = now_ms()
    evaluate(now + 1)
    assert receiver.requests == []
    assert Alert.objects.get(rule="storage_nearly_full").state == "firing"
    services.end_silence(member, held.pk)
    evaluate(now_ms() + 1)
    assert len(receiver.requests) == 1


def test_an_acknowledged_alert_is_not_told_again(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    channel(cast, "webhook", receiver.url)
    now = now_ms()
    evaluate(now)
    evaluate(now + 7 * HOUR_MS)
    assert len(receiver.requests) == 2, "nobody has looked after it"
    services.acknowledge(actor_of(cast.member), Alert.objects.get(rule="storage_nearly_full").id, "I do")
    evaluate(now + 14 * HOUR_MS)
    assert len(receiver.requests) == 2


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://169.254.169.254/latest", "https://localhost/x", "http://[::1]/"]
)
def test_private_addresses_are_refused(cast: Cast, url: str) -> None:
    with pytest.raises(TrainmasterError, match="private network"):
        channel(cast, "webhook", url)


@pytest.mark.parametrize(
    "url", ["", "ftp://example.org/", "no url", "https://user:pw@example.org/", "http://"]
)
def test_what_is_no_address_of_a_webhook_is_refused(cast: Cast, url: str) -> None:
    with pytest.raises(TrainmasterError, match="is not valid"):
        channel(cast, "webhook", url)


def test_an_address_that_became_private_is_not_connected_to(
    cast: Cast, receiver: Receiver, storage: dict[str, float], settings: Any
) -> None:
    channel(cast, "webhook", receiver.url)
    settings.OUTBOUND_HOSTS = []
    evaluate(now_ms())
    assert receiver.requests == []
    assert "private network" in Notice.objects.get().error


def test_addresses_and_keys_are_sealed(cast: Cast, receiver: Receiver) -> None:
    row = channel(cast, "webhook", receiver.url, key="a shared key")
    row.refresh_from_db()
    kept = bytes(row.address) + bytes(row.key) + row.shown.encode()
    assert b"secret-path" not in kept
    assert b"a shared key" not in kept
    assert row.shown == "127.0.0.1"


def test_a_deleted_channel_gets_nothing(cast: Cast, receiver: Receiver, storage: dict[str, float]) -> None:
    row = channel(cast, "webhook", receiver.url)
    evaluation.evaluate(now_ms())
    services.delete_channel(actor_of(cast.lead), row.pk)
    notices.deliver()
    assert receiver.requests == []
    assert Notice.objects.get().error == "the channel was deleted"


def test_a_test_arrives(cast: Cast, receiver: Receiver) -> None:
    row = channel(cast, "pagerduty", receiver.url, key="routing")
    services.send_test(actor_of(cast.lead), row.pk)
    notices.deliver()
    (document,) = receiver.documents()
    assert document["payload"]["summary"] == "Test of a channel"


def test_a_measure_that_breaks_does_not_blind_the_others(
    cast: Cast, receiver: Receiver, storage: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    channel(cast, "webhook", receiver.url)

    def broken(at_ms: int) -> list[readings.Reading]:
        raise RuntimeError("it broke")

    monkeypatch.setitem(readings.READS, "job.utilisation", broken)  # type: ignore[arg-type]
    evaluate(now_ms())
    assert len(receiver.requests) == 1


def test_a_rule_of_a_team_looks_at_that_team_alone(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    storage |= {"vision": 60.0, "nlp": 60.0}
    services.save_rule(
        actor_of(cast.lead),
        "vision",
        "half_full",
        title="Half full",
        condition="team.storage > 50",
        severity="warning",
    )
    evaluate(now_ms())
    assert list(Alert.objects.values_list("rule", "subject")) == [("half_full", "vision")]
    services.delete_rule(actor_of(cast.lead), "half_full")
    evaluate(now_ms() + MINUTE_MS)
    assert Alert.objects.get().state == "resolved"


def test_an_operator_changes_and_switches_off_a_built_in_rule(cast: Cast, storage: dict[str, float]) -> None:
    root = actor_of(cast.admin)
    change = {"title": "x", "severity": "warning"}
    services.save_rule(root, "", "storage_nearly_full", condition="team.storage > 99", **change)
    evaluate(now_ms())
    assert not Alert.objects.exists()
    services.save_rule(
        root, "", "storage_nearly_full", condition="team.storage > 10", enabled=False, **change
    )
    evaluate(now_ms())
    assert not Alert.objects.exists()
    services.delete_rule(root, "storage_nearly_full")
    evaluate(now_ms())
    assert Alert.objects.count() == 1
    with pytest.raises(TrainmasterError, match="built-in rule"):
        services.save_rule(
            actor_of(cast.lead), "vision", "storage_nearly_full", condition="team.storage > 1", **change
        )


def test_the_gateway_stands_in_when_no_worker_evaluates(
    cast: Cast, receiver: Receiver, storage: dict[str, float]
) -> None:
    channel(cast, "webhook", receiver.url)
    assert not services.stand_in(), "nothing was ever evaluated: the platform is being set up"
    evaluation.evaluate(now_ms() - 10 * MINUTE_MS)
    storage["vision"] = 96
    assert services.stand_in()
    assert not services.stand_in(), "it was just evaluated"
    assert len(receiver.requests) == 1
