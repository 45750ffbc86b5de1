"""A deployment under way, as a terminal and as a log file see it."""

import io
from dataclasses import replace

import pytest

from tests.sdk.platform_stub import TOKEN, PlatformStub
from trainmaster.answers import Deployment
from trainmaster.cli.progress import Lines, drawn, watch, watch_all
from trainmaster.client import Client

HALF = Deployment(
    "dep-1", "distributing", progress=0.5, workers=4, workers_complete=1, bytes_done=2 << 30, bytes_total=4 << 30,
    rate=1 << 30,
)  # fmt: skip
DONE = Deployment("dep-1", "complete", progress=1.0, workers=4, workers_complete=4)


def switching(state: str, active: int, **told: object) -> Deployment:
    return replace(DONE, rollout={"state": state, "nodes": 4, "nodes_active": active, **told})


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class OldTerminal(Terminal):
    encoding = "ascii"


def test_a_terminal_sees_one_line_that_is_drawn_again() -> None:
    out = Terminal()
    line = Lines(out, width=lambda: 100)
    line.show([HALF])
    line.show([DONE])
    line.end()
    told = out.getvalue()
    assert told.count("\n") == 1
    assert told.endswith("\n")
    first, second = told.removeprefix("\r\x1b[2K").split("\r\x1b[2K")
    assert first == f"{'█' * 20}{'░' * 20}  50%  1/4 workers  1 GiB/s  2 s left  distributing"
    assert second.strip() == f"{'█' * 40} 100%  4/4 workers  complete"


def test_a_log_gets_a_line_for_each_change_and_no_escapes() -> None:
    out = io.StringIO()
    line = Lines(out)
    for deployment in (HALF, HALF, DONE):
        line.show([deployment])
    line.end()
    assert out.getvalue().splitlines() == [
        "distributing  50%  1 of 4 workers complete",
        "complete  100%  4 of 4 workers complete",
    ]


def test_a_terminal_without_blocks_gets_plain_letters() -> None:
    out = OldTerminal()
    Lines(out, width=lambda: 100).show([HALF])
    assert "#" * 20 + "-" * 20 in out.getvalue()


@pytest.mark.parametrize("width", range(0, 120, 7))
def test_it_never_is_wider_than_the_terminal(width: int) -> None:
    for deployment in (HALF, DONE, Deployment("dep-1", "init"), switching("promoting", 3)):
        assert len(drawn(deployment, width)) <= width


def test_it_is_watched_to_its_end(platform: PlatformStub) -> None:
    platform.answer("GET deployments/dep-1", {"id": "dep-1", "status": "failed", "reason": "no node is left"})
    out = io.StringIO()
    with Client(platform.url, TOKEN) as client:
        ended = watch(client, HALF, pause=lambda seconds: None, out=out)
    assert (ended.status, ended.reason) == ("failed", "no node is left")
    assert out.getvalue().splitlines()[-1].startswith("failed")


def test_when_the_bytes_are_there_the_bar_is_that_of_the_switch() -> None:
    assert (
        drawn(switching("promoting", 3), 100)
        == f"{'█' * 30}{'░' * 10}  75%  3/4 nodes run it  rollout promoting"
    )
    back = switching("rolled_back", 0, nodes_going_back=1)
    assert drawn(back, 100) == f"{'█' * 30}{'░' * 10}  75%  1 still switch back  rolled back"
    assert "distributing" in drawn(replace(HALF, rollout=switching("distributing", 0).rollout), 100)


def test_what_needs_nobody_s_word_is_watched_on() -> None:
    settled = {
        one: switching(state, 1, **told).is_settled
        for one, state, told in (
            ("canaries switch", "canary", {}),
            ("held by the clock", "holding", {"hold_ends_ms": 5}),
            ("held for somebody", "holding", {"awaits_promotion": True}),
            ("all switch", "promoting", {}),
            ("active", "active", {}),
            ("stopped", "failed", {}),
            ("going back", "rolled_back", {"nodes_going_back": 1}),
            ("back", "rolled_back", {"nodes_going_back": 0}),
            ("replaced", "promoting", {"replaced_by": 3}),
        )
    }
    assert [one for one, ended in settled.items() if ended] == [
        "held for somebody", "active", "stopped", "back", "replaced",
    ]  # fmt: skip
    assert replace(HALF, status="failed", rollout={"state": "distributing"}).is_settled


def test_several_are_drawn_over_each_other_until_the_last_is_settled(platform: PlatformStub) -> None:
    other = replace(HALF, id="dep-2", model="vision/other", version=2)
    for bytes_done in (3 << 30, 4 << 30):
        status = "complete" if bytes_done == 4 << 30 else "distributing"
        answer = {
            "id": "dep-2",
            "status": status,
            "model": "vision/other",
            "version": 2,
            "bytes_done": bytes_done,
        }
        platform.answer("GET deployments/dep-2", answer)
    out = Terminal()
    with Client(platform.url, TOKEN) as client:
        ended = watch_all(
            client, [replace(DONE, model="vision/one", version=1), other], pause=lambda _: None, out=out
        )
    assert [one.status for one in ended] == ["complete", "complete"]
    assert out.getvalue().count("\x1b[1A") == 2, "drawn three times, twice over what was there"
    assert out.getvalue().startswith("\r\x1b[2Kvision/one v1    ")
    assert [one.path for one in platform.asked] == ["deployments/dep-2"] * 2, (
        "who is settled is not asked again"
    )
