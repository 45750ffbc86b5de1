"""The alerts of a platform whose clock a test turns: what is bad fires a rule, what is good resolves it."""

from collections.abc import Callable

from platform_core.alerting.builtin import BY_CODE
from platform_core.units import MINUTE_MS
from webapp.alerts import evaluation
from webapp.alerts.models import Alert
from webapp.base import rounds
from webapp.base.identity import now_ms


class Clock:
    """Evaluates at moments that lie ahead, so that durations pass."""

    def __init__(self) -> None:
        self.now = now_ms()

    def passes(self, ms: int, prepare: Callable[[int], object] = lambda at: None, times: int = 1) -> None:
        for _ in range(times):
            self.now += ms // times
            prepare(self.now)
            assert evaluation.evaluate(self.now)


def state(code: str) -> str:
    alert = Alert.objects.filter(rule=code).order_by("-began_ms").first()
    return str(alert.state) if alert else ""


def proves(code: str, clock: Clock, bad: Callable[[int], object], good: Callable[[int], object]) -> None:
    """It fires once what is bad has lasted, and resolves once what is good has."""
    rule = BY_CODE[code]
    clock.passes(MINUTE_MS, bad)
    if rule.condition.for_ms:
        clock.passes(rule.condition.for_ms, bad)
    alert = Alert.objects.get(rule=code)
    assert alert.state == "firing", alert.state
    assert alert.sentence
    assert "{" not in alert.sentence
    wrong = alert.sentence
    clock.passes(MINUTE_MS, good)
    clock.passes(rule.condition.clear_ms, good)
    assert state(code) == "resolved"
    assert Alert.objects.get(rule=code).sentence == wrong, "what was wrong, not what is well now"


def look_after(works: int) -> None:
    """As many rounds of a coordinator as an alert takes, whose subject fails where this is 0."""
    for _ in range(rounds.ALERTED_AFTER):
        rounds.each("deployment", ["dep-1"], lambda subject: 1 // works)
