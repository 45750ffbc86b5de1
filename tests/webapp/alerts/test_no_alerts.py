"""What looks like trouble and is none."""

from platform_core.units import HOUR_MS
from tests.webapp.alerts.proving import Clock, state
from tests.webapp.jobs.conftest import tick
from webapp.alerts.models import Alert
from webapp.base import pulse
from webapp.jobs.models import UtilisationSample
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.scheduling import measures as scheduling


def test_an_idle_cluster_is_no_alert(cluster: list[Node], clock: Clock) -> None:
    def idle(at: int) -> object:
        return UtilisationSample.objects.create(
            at_ms=at, gpu_type="cpu", slots=8, held=0, utilisation=None, queued_jobs=0
        )

    clock.passes(2 * HOUR_MS, idle, times=2)
    assert state("cluster_underused") == ""


def test_a_platform_that_starts_again_is_no_alert(cluster: list[Node], clock: Clock) -> None:
    """It is seen again within seconds."""
    tick()
    stopped = clock.now
    clock.now += HOUR_MS

    def back(at: int) -> None:
        scheduling.finished(at, 5)
        liveness.listening(at)
        pulse.keep("worker", pulse.Pulse(at, 0))

    def still_from_before(at: int) -> None:
        back(stopped)

    clock.passes(15_000, still_from_before)
    clock.passes(15_000, back)
    codes = ("scheduler_stalled", "scheduler_leaderless", "gateway_down", "worker_down")
    assert not Alert.objects.filter(rule__in=codes, fired_ms__gt=0).exists()
