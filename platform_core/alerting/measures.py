"""The measures that alert rules are about: the name, the unit and the subjects of each. One table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from platform_core.jobs.spec import DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT, PRIORITIES
from platform_core.units import format_bytes, format_duration_ms, format_number


class Unit(StrEnum):
    PERCENT = "percent"
    MILLISECONDS = "milliseconds"
    BYTES = "bytes"
    COUNT = "count"

    def words(self, value: float) -> str:
        """ "47 %", "3 h", "2 GiB" or "12"."""
        match self:
            case Unit.PERCENT:
                return f"{format_number(round(value, 1))} %"
            case Unit.MILLISECONDS:
                return format_duration_ms(round(value)) if abs(value) >= 1 else "0 s"
            case Unit.BYTES:
                return format_bytes(round(value))
        return format_number(round(value, 2))


class Kind(StrEnum):
    """What a measure has one value for."""

    JOB = "job"
    TEAM = "team"
    ENDPOINT = "endpoint"
    NODE = "node"
    CLUSTER = "cluster"


class WaitClass(StrEnum):
    """Priorities whose waits are judged alike."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    @property
    def priorities(self) -> range:
        match self:
            case WaitClass.HIGH:
                return range(MOST_URGENT, DEFAULT_PRIORITY)
            case WaitClass.NORMAL:
                return range(DEFAULT_PRIORITY, PRIORITIES["low"])
        return range(PRIORITIES["low"], LEAST_URGENT + 1)


def _between(waits: WaitClass) -> str:
    return f"{waits.priorities.start} to {waits.priorities.stop - 1}"


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    unit: Unit
    kind: Kind
    words: str  # what it is, as a noun: "utilisation of its slots"
    kept_from: float = 0.0  # smaller values are not kept for previews: of 1,250 nodes nearly all are near 0


_MEASURES = (
    Measure("job.utilisation", Unit.PERCENT, Kind.JOB, "mean utilisation of the slots that the job holds"),
    Measure("job.slowdown", Unit.PERCENT, Kind.JOB, "how far its steps a second are below the mean of its attempt", 10),
    Measure("job.mfu", Unit.PERCENT, Kind.JOB, "model FLOPs utilisation of its worst rank, as last reported"),
    Measure("job.data_throughput", Unit.PERCENT, Kind.JOB,
            "data that the loader of its worst rank delivers, of what compute would take"),
    Measure("job.checkpoint_time", Unit.PERCENT, Kind.JOB, "time of its newest save, of the median before", 120),
    Measure("endpoint.drift", Unit.COUNT, Kind.ENDPOINT, "inputs and outputs distributed otherwise than before"),
    Measure("endpoint.without_replica", Unit.COUNT, Kind.ENDPOINT, "1 where it had replicas, wants some and has none"),
    Measure("endpoint.replicas_short", Unit.COUNT, Kind.ENDPOINT, "replicas that it wants and that are not ready"),
    Measure("endpoint.errors", Unit.PERCENT, Kind.ENDPOINT, "requests of five minutes that failed, of at least 20"),
    Measure("endpoint.latency", Unit.PERCENT, Kind.ENDPOINT,
            "p99 of five minutes of at least 20 requests, of its target latency"),
    Measure("team.queue_wait", Unit.MILLISECONDS, Kind.TEAM,
            f"longest wait of its jobs of high priority, {_between(WaitClass.HIGH)}"),
    Measure("team.queue_wait_normal", Unit.MILLISECONDS, Kind.TEAM,
            f"longest wait of its jobs of normal priority, {_between(WaitClass.NORMAL)}"),
    Measure("team.queue_wait_low", Unit.MILLISECONDS, Kind.TEAM,
            f"longest wait of its jobs of low priority, {_between(WaitClass.LOW)}"),
    Measure("team.storage", Unit.PERCENT, Kind.TEAM, "use of its storage limit"),
    Measure("team.storage_cost", Unit.PERCENT, Kind.TEAM, "cost of its storage a month, of its budget"),
    Measure("team.damaged_files", Unit.COUNT, Kind.TEAM, "its files in the store that are damaged or gone", 1),
    Measure("team.dataset_age", Unit.PERCENT, Kind.TEAM,
            "age of its stalest dataset, of the usual time between its versions", 150),
    Measure("team.dataset_freshness", Unit.PERCENT, Kind.TEAM,
            "age of the newest version of its latest dataset, of the age that was promised", 150),
    Measure("cluster.utilisation", Unit.PERCENT, Kind.CLUSTER, "used part of all slots, while any are held or wanted"),
    Measure("cluster.job_failures", Unit.PERCENT, Kind.CLUSTER, "failed jobs of those that ended in a day"),
    Measure("cluster.checkpoint_failures", Unit.PERCENT, Kind.CLUSTER, "checkpoints of a day that are not whole"),
    Measure("cluster.node_failures", Unit.COUNT, Kind.CLUSTER, "nodes lost within a day"),
    Measure("node.ecc_corrected", Unit.COUNT, Kind.NODE, "corrected memory errors in an hour, of its worst GPU", 1),
    Measure("node.ecc_uncorrected", Unit.COUNT, Kind.NODE, "uncorrected memory errors in an hour, of its worst GPU", 1),
    Measure("node.clock_offset", Unit.MILLISECONDS, Kind.NODE, "distance of its clock from the platform's", 100),
    Measure("node.uplink_lag", Unit.MILLISECONDS, Kind.NODE, "age of what it sent last when it arrived", 5_000),
    Measure("node.uploads_waiting", Unit.MILLISECONDS, Kind.NODE,
            "time for which the store has not taken what its jobs have for it", 1),
    Measure("platform.fast_burn", Unit.COUNT, Kind.CLUSTER,
            "how many times too fast the error budget of a service level burns, over 1 h and 5 min", 1),
    Measure("platform.slow_burn", Unit.COUNT, Kind.CLUSTER,
            "how many times too fast the error budget of a service level burns, over 6 h and 30 min", 1),
    Measure("platform.round_age", Unit.MILLISECONDS, Kind.CLUSTER, "time since the last finished scheduling round"),
    Measure("platform.leaderless", Unit.MILLISECONDS, Kind.CLUSTER, "time for which nobody has led the scheduler"),
    Measure("platform.gateway_silence", Unit.MILLISECONDS, Kind.CLUSTER, "time since a gateway last listened"),
    Measure("platform.worker_silence", Unit.MILLISECONDS, Kind.CLUSTER, "silence of scheduler, coordinator or worker"),
    Measure("platform.router_silence", Unit.MILLISECONDS, Kind.CLUSTER,
            "time since a router last took requests, while there are endpoints"),
    Measure("platform.task_lag", Unit.MILLISECONDS, Kind.CLUSTER, "wait of the newest task of each of them"),
    Measure("platform.failing_rounds", Unit.COUNT, Kind.CLUSTER,
            "deployments, endpoints, sweeps and so on that failed in three or more rounds in a row"),
    Measure("platform.database_connections", Unit.PERCENT, Kind.CLUSTER, "used part of the database's connections"),
    Measure("platform.certificate_left", Unit.MILLISECONDS, Kind.CLUSTER, "time until the certificate expires"),
)  # fmt: skip
MEASURES: Mapping[str, Measure] = {measure.name: measure for measure in _MEASURES}
