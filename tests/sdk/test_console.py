import pytest

from trainmaster.console import Console, metrics_line


def test_a_line_tells_the_step_its_values_and_what_remains() -> None:
    assert metrics_line(50, 400, {"loss": 2.34512345, "lr": 0.001}, 12_000) == (
        "step  50/400 · loss 2.3451   · lr 0.001    · 12 s left"
    )
    assert (
        metrics_line(7, None, {"tokens": 1234567, "rate": 234567.8}, None)
        == "step      7 · tokens 1,234,567 · rate 234,568"
    )


def test_quick_steps_share_a_line_but_seldom_metrics_and_the_last_step_are_never_hidden(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console()
    console.expect(100)
    for step, values, at_ms in [
        (1, {"loss": 3.0}, 0),
        (2, {"loss": 3.0}, 100),
        (3, {"loss": 3.0, "eval": 2.0}, 200),
        (4, {"loss": 3.0}, 300),
        (5, {"loss": 3.0}, 1_300),
        (100, {"loss": 1.0}, 1_400),
    ]:
        console.metrics(step, values, at_ms)
    printed = [line.split(" · ")[0].split()[1] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["1/100", "3/100", "5/100", "100/100"]


def test_what_remains_is_measured_from_the_first_step_of_this_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console()
    console.expect(100)
    console.metrics(60, {"loss": 1.0}, 0)
    console.metrics(70, {"loss": 1.0}, 5_000)
    assert "15 s left" in capsys.readouterr().out
