"""What looks like trouble and is none."""

from platform_core.units import HOUR_MS
from tests.webapp.alerts.proving import Clock, state
from webapp.jobs.models import UtilisationSample
from webapp.nodes.models import Node


def test_an_idle_cluster_is_no_alert(cluster: list[Node], clock: Clock) -> None:
    def idle(at: int) -> object:
        return UtilisationSample.objects.create(
            at_ms=at, gpu_type="cpu", slots=8, held=0, utilisation=None, queued_jobs=0
        )

    clock.passes(2 * HOUR_MS, idle, times=2)
    assert state("cluster_underused") == ""
