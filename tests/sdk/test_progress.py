"""A deployment under way, as a terminal and as a log file see it."""

import io

import pytest

from tests.sdk.platform_stub import TOKEN, PlatformStub
from trainmaster.answers import Deployment
from trainmaster.cli.progress import Line, drawn, watch
from trainmaster.client import Client

HALF = Deployment(
    "dep-1", "distributing", progress=0.5, workers=4, workers_complete=1, bytes_done=2 << 30, bytes_total=4 << 30,
    rate=1 << 30,
)  # fmt: skip
DONE = Deployment("dep-1", "complete", progress=1.0, workers=4, workers_complete=4)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class OldTerminal(Terminal):
    encoding = "ascii"


def test_a_terminal_sees_one_line_that_is_drawn_again() -> None:
    out = Terminal()
    line = Line(out, width=lambda: 100)
    line.show(HALF)
    line.show(DONE)
    line.end()
    told = out.getvalue()
    assert told.count("\n") == 1
    assert told.endswith("\n")
    first, second = told.removeprefix("\r\x1b[2K").split("\r\x1b[2K")
    assert first == f"{'█' * 20}{'░' * 20}  50%  1/4 workers  1 GiB/s  2 s left  distributing"
    assert second.strip() == f"{'█' * 40} 100%  4/4 workers  complete"


def test_a_log_gets_a_line_for_each_change_and_no_escapes() -> None:
    out = io.StringIO()
    line = Line(out)
    for deployment in (HALF, HALF, DONE):
        line.show(deployment)
    line.end()
    assert out.getvalue().splitlines() == [
        "distributing  50%  1 of 4 workers complete",
        "complete  100%  4 of 4 workers complete",
    ]


def test_a_terminal_without_blocks_gets_plain_letters() -> None:
    out = OldTerminal()
    Line(out, width=lambda: 100).show(HALF)
    assert "#" * 20 + "-" * 20 in out.getvalue()


@pytest.mark.parametrize("width", range(0, 120, 7))
def test_it_never_is_wider_than_the_terminal(width: int) -> None:
    for deployment in (HALF, DONE, Deployment("dep-1", "init")):
        assert len(drawn(deployment, width)) <= width


def test_it_is_watched_to_its_end(platform: PlatformStub) -> None:
    platform.answer("GET deployments/dep-1", {"id": "dep-1", "status": "failed", "reason": "no node is left"})
    out = io.StringIO()
    with Client(platform.url, TOKEN) as client:
        ended = watch(client, HALF, pause=lambda seconds: None, out=out)
    assert (ended.status, ended.reason) == ("failed", "no node is left")
    assert out.getvalue().splitlines()[-1].startswith("failed")
