"""Single changes that would start a waiting job now. Each was tried: with that change alone the engine starts the job.

What only a new submission can change (size, limit, constraints) is tried as a submission of now, without the time
waited. Priority and quota can change while the job waits, so it keeps its place in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob, Snapshot, TeamShare
from platform_core.jobs.spec import MOST_URGENT
from platform_core.scheduling.decisions import Placement
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.estimates import with_gpus
from platform_core.scheduling.explain.binding import relaxations
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption import elastic
from platform_core.scheduling.wording import amount, listed
from platform_core.units import MINUTE_MS, format_duration_ms, plural

# Prefixes of new node names, first and last in order: the outcome must not depend on the name of a new node.
_FIRST_AND_LAST = ("!", "~")
TRIES = 6  # rounds per field at most; a round on a large cluster takes a tenth of a second


@dataclass(frozen=True, slots=True)
class Change:
    """`field` is of the job's description; "maximum" is the quota of its team, "more_nodes" the cluster's."""

    field: str
    value: int | str
    sentence: str
    stops: int = 0  # running jobs that would stop for it first


def changes(snapshot: Snapshot, policy: Policy, job_id: str) -> tuple[Change, ...]:
    """The smallest sufficient change of each kind, changes of the job first; () if it starts without any."""
    job = next((each for each in snapshot.pending if each.id == job_id), None)
    if job is None:
        return ()
    trial = _Trial(snapshot, policy, job)
    if trial.outcome(trial.as_it_is) is not None:
        return ()
    return tuple(change for offer in _OFFERS for change in offer(trial))


class _Trial:
    def __init__(self, snapshot: Snapshot, policy: Policy, job: PendingJob) -> None:
        self.snapshot, self.policy, self.job = snapshot, policy, job
        self.as_it_is = decide(snapshot, policy)
        self.anew = replace(
            job, submitted_ms=snapshot.now_ms, waiting_since_ms=snapshot.now_ms, attained_gpu_ms=0,
            resize_to=0, resize_on=(), reserved_nodes=(), reserved_until_ms=None,
        )  # fmt: skip

    def round(
        self, job: PendingJob, teams: Sequence[TeamShare] = (), more: Sequence[NodeView] = ()
    ) -> Decisions:
        pending = tuple(job if each.id == job.id else each for each in self.snapshot.pending)
        nodes, shares = (*self.snapshot.nodes, *more), tuple(teams) or self.snapshot.teams
        return decide(replace(self.snapshot, pending=pending, nodes=nodes, teams=shares), self.policy)

    def outcome(self, decided: Decisions) -> int | None:
        """0 if it starts, else how many jobs are stopped for it; None if nothing changes for it."""
        if self.placement(decided) is not None:
            return 0
        return sum(stop.for_job == self.job.id for stop in decided.stops) or None

    def placement(self, decided: Decisions) -> Placement | None:
        return next((placement for job, placement in decided.started if job.id == self.job.id), None)

    def starts(self, job: PendingJob) -> bool:
        return self.could(job) and self.placement(self.round(job)) is not None

    def first(self, tried: Iterable[PendingJob]) -> PendingJob | None:
        """The first that starts, within the number of tries."""
        likely = (job for job in tried if self.could(job))
        return next((job for _, job in zip(range(TRIES), likely, strict=False) if self.starts(job)), None)

    def could(self, job: PendingJob) -> bool:
        """Cheap test: False if place or quota is missing even at the start of the round."""
        state, least = self.as_it_is.state, with_gpus(job, job.min_gpus)
        share = self.share(job.gpu_type)
        if share is None or share.used + least.num_gpus > share.maximum:
            return False
        if least.num_gpus < job.num_gpus:
            return True  # it may begin with any of many sizes
        return state.cluster.place(state.at_start, state.cluster.demand(job)) is not None

    def share(self, gpu_type: str) -> TeamShare | None:
        mine = (self.job.team, gpu_type)
        return next((each for each in self.snapshot.teams if (each.team, each.gpu_type) == mine), None)


def _fewer_gpus(trial: _Trial) -> Iterator[Change]:
    """Tries the largest sizes that fit what is free before and after the round, then halves of the latter.

    Where nothing fits after the round, halves of the former: a smaller job may come before others that took the place.
    """
    job, state = trial.anew, trial.as_it_is.state
    smallest = replace(job, num_gpus=job.min_gpus, min_gpus=1)
    sizes = {size: _sized(job, size) for size in elastic.sizes(smallest, state.index.most_slots)}
    sizes.pop(job.min_gpus)
    fits = [
        next(
            (n for n, it in sizes.items() if state.cluster.place(free, state.cluster.demand(it)) is not None),
            0,
        )
        for free in (state.at_start, state.counts)
    ]
    likely = {*fits, *[(fits[-1] or fits[0]) >> power for power in range(1, TRIES)]} & set(sizes)
    smaller = trial.first(sizes[size] for size in sorted(likely, reverse=True))
    if smaller is not None:
        gpus = smaller.num_gpus
        yield Change("num_gpus", gpus, f"{amount(gpus, job.gpu_type)} instead of {job.num_gpus}")


def _sized(job: PendingJob, gpus: int) -> PendingJob:
    return replace(job, num_gpus=gpus, min_gpus=gpus)


def _shorter(trial: _Trial) -> Iterator[Change]:
    """A limit that ends before a reservation or maintenance begins, or that moves the job forward in order."""
    job, now_ms = trial.anew, trial.snapshot.now_ms
    if job.expected_runtime_ms is not None or not job.max_runtime_ms:
        return  # its limit does not count
    state = trial.as_it_is.state
    begins = [kept.start_ms for kept in state.reservations.made if kept.job_id != job.id]
    of_its_team = state.quota.reservations_of(job.team, job.gpu_type)
    begins += [quota.start_ms for quota in of_its_team if quota.job_id != job.id]
    begins += [begin_ms for node in trial.snapshot.nodes for begin_ms, _ in node.windows]
    spans = {_rounded(begin_ms - now_ms) for begin_ms in begins}
    spans |= {_rounded(job.max_runtime_ms >> power) for power in range(1, TRIES)}
    limits = sorted({span for span in spans if 0 < span < job.max_runtime_ms}, reverse=True)
    shorter = trial.first(replace(job, max_runtime_ms=limit) for limit in _thinned(limits))
    if shorter is not None:
        limit, given = shorter.max_runtime_ms, format_duration_ms(job.max_runtime_ms)
        yield Change("max_runtime_ms", limit, f"a limit of {format_duration_ms(limit)} instead of {given}")


def _rounded(span_ms: int) -> int:
    """Whole minutes, a tenth less, as some time passes before the submission."""
    return span_ms * 9 // 10 // MINUTE_MS * MINUTE_MS


def _thinned(limits: Sequence[int]) -> Sequence[int]:
    """At most TRIES of the limits, from the longest to the shortest."""
    last = len(limits) - 1
    return [limits[at] for at in sorted({last * n // (TRIES - 1) for n in range(TRIES)})] if limits else ()


def _another_type(trial: _Trial) -> Iterator[Change]:
    types = sorted(set(trial.as_it_is.state.index.gpu_types) - {trial.job.gpu_type})
    moved = trial.first(replace(trial.anew, gpu_type=gpu_type) for gpu_type in types)
    if moved is not None:
        yield Change("gpu_type", moved.gpu_type, f"{moved.gpu_type} instead of {trial.job.gpu_type}")


def _fewer_conditions(trial: _Trial) -> Iterator[Change]:
    job, index = trial.anew, trial.as_it_is.state.index
    wanted = job.constraints
    wording = {
        "node_labels": f"nodes without {' and '.join(f'{name}={value}' for name, value in wanted.labels)}",
        "excluded_nodes": f"leave to use {listed(wanted.excluded_nodes)}",
        "max_racks": f"nodes in more than {plural(wanted.max_racks, 'rack')}",
    }
    for field, relaxed in relaxations(index, wanted).items():
        changed = replace(job, constraints=relaxed)
        if relaxed == wanted or not trial.starts(changed):
            continue
        if field == "tolerations":
            yield _tolerating(trial, changed)
        else:
            yield Change(field, "", wording[field])


def _tolerating(trial: _Trial, changed: PendingJob) -> Change:
    """Only the taints of the nodes that it would get."""
    placement = trial.placement(trial.round(changed))
    there = {seat.node for seat in placement.members} if placement is not None else set()
    met = {taint for node in trial.snapshot.nodes if node.id in there for taint in node.taints}
    missing = sorted(met - set(trial.job.constraints.tolerations))
    return Change("tolerations", " ".join(missing), f"tolerance of the taint {' and '.join(missing)}")


def _more_urgent(trial: _Trial) -> Iterator[Change]:
    """The least urgent sufficient priority, by bisection."""
    job = trial.job

    def tried(priority: int) -> int | None:
        return trial.outcome(trial.round(replace(job, priority=priority)))

    enough, too_little = MOST_URGENT, job.priority
    policy = trial.policy
    makes_room = policy.evicts or policy.elastic or policy.reclaims
    if too_little <= enough or not (makes_room or trial.could(job)) or (stops := tried(enough)) is None:
        return
    while too_little - enough > 1:
        between = (enough + too_little) // 2
        found = tried(between)
        if found is None:
            too_little = between
        else:
            enough, stops = between, found
    first = f"; {plural(stops, 'job')} would save and stop for it first" if stops else ""
    yield Change("priority", enough, f"priority {enough} instead of {job.priority}{first}", stops)


def _larger_quota(trial: _Trial) -> Iterator[Change]:
    job, state = trial.job, trial.as_it_is.state
    if state.in_quota(with_gpus(job, job.min_gpus)):
        return
    share = trial.share(job.gpu_type) or TeamShare(job.team, job.gpu_type, 0, 0, 0, 1.0, 0.0)
    others = [each for each in trial.snapshot.teams if each != share]
    mine = [each for each in trial.snapshot.pending if (each.team, each.gpu_type) == (job.team, job.gpu_type)]
    alone = state.quota.held(job.team, job.gpu_type) + job.num_gpus
    for maximum in sorted({alone, share.used + sum(each.num_gpus for each in mine)}):
        if maximum <= share.maximum:
            continue
        decided = trial.round(job, [*others, replace(share, maximum=maximum)])
        if trial.placement(decided) is not None:
            slots = amount(maximum, job.gpu_type)
            yield Change(
                "maximum", maximum, f"a quota of {slots} for team {job.team} instead of {share.maximum}"
            )
            return


def _more_nodes(trial: _Trial) -> Iterator[Change]:
    job, state = trial.job, trial.as_it_is.state
    able = [
        node
        for node in state.index.members(state.index.eligible(state.cluster.demand(job)))
        if not node.windows
    ]
    if not able:
        return
    like = min(able, key=lambda node: (-node.slots, node.id))
    ahead = [each for each in trial.as_it_is.waiting if each.gpu_type == job.gpu_type]
    ahead = ahead[: next((n for n, each in enumerate(ahead) if each.id == job.id), 0) + 1]
    whole = -(-job.num_gpus // like.slots)

    def enough(count: int) -> bool:
        new = [[_new_node(like, f"{mark}new-{n:04}") for n in range(count)] for mark in _FIRST_AND_LAST]
        return all(trial.placement(trial.round(job, more=more)) is not None for more in new)

    too_few = 0
    for count in sorted({1, whole, sum(-(-each.num_gpus // like.slots) for each in ahead)}):
        if count > len(able):
            return  # more than twice the cluster is no remedy
        if enough(count):
            break
        too_few = count
    else:
        return
    tries = TRIES // 2
    while count - too_few > 1 and tries:
        between, tries = (too_few + count) // 2, tries - 1
        if enough(between):
            count = between
        else:
            too_few = between
    nodes = amount(like.slots, like.gpu_type)
    yield Change("more_nodes", count, f"{plural(count, 'more node')} with {nodes}")


def _new_node(like: NodeView, name: str) -> NodeView:
    return replace(like, id=name, hostname=name, rack=name, free_slots=tuple(range(like.slots)),
                   state=NodeState.READY)  # fmt: skip


_OFFERS: Sequence[Callable[[_Trial], Iterator[Change]]] = (
    _fewer_gpus,
    _shorter,
    _fewer_conditions,
    _another_type,
    _more_urgent,
    _larger_quota,
    _more_nodes,
)
