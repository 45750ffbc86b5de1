"""The rules that every platform has. docs/reference/alerts.md has a runbook for each code."""

from __future__ import annotations

from collections.abc import Mapping

from platform_core.alerting.expression import parse
from platform_core.alerting.rules import Rule, Severity

_WARNING, _CRITICAL = Severity.WARNING, Severity.CRITICAL


def _rule(code: str, title: str, when: str, severity: Severity, meaning: str, remedy: str, *by: str) -> Rule:
    return Rule(code, title, parse(when), severity, meaning, remedy, inhibited_by=by)


RULES: tuple[Rule, ...] = (
    _rule("job_underused", "A job uses its slots too little", "job.utilisation < 80 for 5m clear 85", _WARNING,
          "{name} of {team} uses {value} of the slots it holds; the target is {limit}.",
          "Look at the system curves of its run: more data workers, a larger batch or fewer slots.",
          "job_mostly_idle"),
    _rule("job_mostly_idle", "A job hardly uses its slots", "job.utilisation < 50 for 30m clear 60", _CRITICAL,
          "{name} of {team} has used {value} of the slots it holds for half an hour: others could use them.",
          "Ask its owner whether it hangs or waits for data; cancel it, or start it with fewer slots."),
    _rule("job_slowed_down", "The throughput of a job has collapsed", "job.slowdown > 50 for 5m clear 30", _WARNING,
          "{name} of {team} makes {value} fewer steps a second than its attempt did on average: data or a rank stalls.",
          "Read its log and stacks, and the network and disk curves of its nodes.", "uplink_lags"),
    _rule("job_low_mfu", "A job computes far below its hardware", "job.mfu < 30 for 15m clear 35", _WARNING,
          "{name} of {team} reaches {value} of the FLOP/s of its GPUs; {limit} is the least that is worth its price.",
          "Check precision, batch size, compilation and the parallel layout; the planner proposes one."),
    _rule("checkpoint_slow", "Checkpoints of a job take much longer than before",
          "job.checkpoint_time > 200 for 1m clear 150", _WARNING,
          "The newest checkpoint of {name} of {team} took {value} of the usual time, so it saves less often.",
          "Look at the load of the store and the disks of its nodes."),
    _rule("endpoint_drift", "An endpoint is asked or answers otherwise than at first",
          "endpoint.drift > 0 for 10m", _WARNING,
          "{value} inputs or outputs of {name} of {team} are distributed otherwise than at first: {detail}.",
          "Its page has the distances: look for a change at its callers, and evaluate a model trained on newer data."),
    _rule("queue_wait", "Urgent jobs wait too long", "team.queue_wait > 2h clear 100m", _WARNING,
          "{detail} of {team} for more than {limit}; the longest for {value}.",
          "The queue page has each job's reason: more nodes, a larger quota, or a lower priority elsewhere.",
          "scheduler_stalled", "scheduler_leaderless"),
    _rule("storage_nearly_full", "The storage of a team is nearly full", "team.storage > 90 clear 85", _WARNING,
          "{team} has used {value} of its storage; at 100 % its uploads are refused.",
          "Delete runs and datasets that nobody needs, or raise TRAINMASTER_TEAM_UPLOAD_LIMIT_BYTES."),
    _rule("cluster_underused", "The cluster is used too little", "cluster.utilisation < 60 for 1h clear 65", _WARNING,
          "All slots together are used at {value}, with jobs that hold or wait for some; the target is {limit}.",
          "The report names idle jobs and unused guarantees; the queue page says why jobs wait."),
    _rule("job_failures", "Too many jobs fail", "cluster.job_failures > 5 for 5m clear 4", _WARNING,
          "{value} of the jobs that ended within a day have failed: {detail}.",
          "The report lists failures by node; end reasons on the jobs' pages tell scripts from hardware."),
    _rule("checkpoint_failures", "Checkpoints fail", "cluster.checkpoint_failures > 1 for 5m clear 0.8", _CRITICAL,
          "{value} of the checkpoints of a day are damaged or incomplete: {detail}. Jobs lose more work.",
          "Check the store and the uplink of the nodes that saved them."),
    _rule("node_failures", "Nodes are lost too often", "cluster.node_failures > 2 clear 1", _CRITICAL,
          "{value} nodes were lost within a day: {detail}.",
          "Check power, network and the agent's log on these nodes; drain those that come and go.", "gateway_down"),
    _rule("gpu_ecc_corrected", "A GPU corrects more and more memory errors",
          "node.ecc_corrected > 100 for 5m clear 50", _WARNING,
          "A GPU of {name} corrected {value} memory errors within an hour; they come before failures.",
          "Reset the GPU when it is idle, so that bad rows are remapped; replace it if they come back."),
    _rule("gpu_ecc_uncorrected", "A GPU has lost data", "node.ecc_uncorrected > 0", _CRITICAL,
          "A GPU of {name} had {value} uncorrected memory errors within an hour: results of its jobs may be wrong.",
          "Drain the node, reset the GPU, run `dcgmi diag -r 3`, then return it."),
    _rule("clock_skew", "The clock of a node is wrong", "node.clock_offset > 1s for 1m clear 0.5s", _WARNING,
          "The clock of {name} is {value} off: times of its logs and metrics are wrong by that.",
          "Start chrony or another NTP client on the node."),
    _rule("uplink_lags", "A node sends late", "node.uplink_lag > 1m for 2m clear 30s", _WARNING,
          "What {name} sends arrives {value} late: curves and logs of its jobs are behind.",
          "Check the network between the node and the gateway, and the load of the database.", "gateway_down"),
    _rule("scheduler_stalled", "The scheduler finishes no round", "platform.round_age > 30s clear 10s", _CRITICAL,
          "No scheduling round has finished for {value}: no job starts.",
          "Read the worker's log; `manage.py story` and the audit log show the last round.",
          "scheduler_leaderless", "worker_down"),
    _rule("scheduler_leaderless", "Nobody leads the scheduler", "platform.leaderless > 30s clear 10s", _CRITICAL,
          "Nobody has led the scheduler for {value}: no job starts and lost nodes are not noticed.",
          "Start a worker and beat, and check that they reach the database and the cache.", "worker_down"),
    _rule("gateway_down", "No gateway listens", "platform.gateway_silence > 30s clear 15s", _CRITICAL,
          "No gateway has listened for {value}: nodes get no orders, and their metrics and logs wait on their disks.",
          "Start the gateway; its log has why it stopped."),
    _rule("worker_down", "No worker carries out tasks", "platform.worker_silence > 1m clear 30s", _CRITICAL,
          "No worker has carried out a task for {value}: nothing is scheduled, mailed or evaluated but this.",
          "Start the worker and beat; their logs have why they stopped."),
    _rule("tasks_late", "Tasks wait in the queue", "platform.task_lag > 30s for 1m clear 10s", _WARNING,
          "Tasks wait {value} before a worker takes them: the worker is too slow or too few run.",
          "Start more workers, or look for a task that takes long in the worker's log."),
    _rule("database_connections", "The database is near its limit of connections",
          "platform.database_connections > 80 for 1m clear 70", _CRITICAL,
          "{value} of the database's connections are used; beyond 100 % pages and agents are refused.",
          "Raise max_connections, put a pooler in front, or run fewer processes."),
    _rule("certificate_expires", "The certificate of the gateway expires soon",
          "platform.certificate_left < 21d clear 30d", _WARNING,
          "The certificate of the gateway expires in {value}; then no agent connects.",
          "Renew it with `trainmaster certs` or your own authority, and restart the gateway."),
)  # fmt: skip
BY_CODE: Mapping[str, Rule] = {rule.code: rule for rule in RULES}
