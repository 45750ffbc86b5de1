from __future__ import annotations

import pytest

from platform_core.jobs import events as ev
from platform_core.jobs.job import MemberPhase
from tests.core.jobs.situations import members


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (ev.Submitted(at_ms=1, actor="user:alice"), "alice submitted it"),
        (ev.Placed(at_ms=1, attempt=2, members=members("node-a", "node-b"), cause="both in rack r1"),
         "attempt 2 got 4 slots on node-a (slots 0, 1), node-b (slots 0, 1): both in rack r1"),
        (ev.MemberObserved(at_ms=1, attempt=1, node="node-a", phase=MemberPhase.PREPARING),
         "node-a fetches its code and data"),
        (ev.MemberObserved(at_ms=1, attempt=1, node="node-a", phase=MemberPhase.RUNNING),
         "its processes run on node-a"),
        (ev.MemberObserved(at_ms=1, attempt=1, node="node-a", phase=MemberPhase.EXITED, exit_code=1),
         "its processes on node-a ended with exit code 1, script error"),
        (ev.MemberObserved(at_ms=1, attempt=1, node="node-a", phase=MemberPhase.LOST, reason="not known there"),
         "its processes on node-a are gone (not known there)"),
        (ev.CheckpointStarted(at_ms=1, attempt=1, step=50), "began to write a checkpoint at step 50"),
        (ev.CheckpointSaved(at_ms=1, attempt=1, step=50, checkpoint="ckpt-1"), "saved checkpoint ckpt-1 at step 50"),
        (ev.CheckpointFailed(at_ms=1, attempt=1, step=50, cause="the disk is full"),
         "could not save a checkpoint at step 50: the disk is full"),
        (ev.CheckpointDamaged(at_ms=1, attempt=2, checkpoint="ckpt-1", step=50, instead=None, cause="model.pt is gone"),
         "checkpoint ckpt-1 at step 50 is damaged: model.pt is gone"),
        (ev.CancelRequested(at_ms=1, actor="user:alice", cause="wrong data"), "alice cancelled it: wrong data"),
        (ev.PreemptRequested(at_ms=1, actor="scheduler"), "scheduler asked for its slots back"),
        (ev.TimeLimitReached(at_ms=1), "its time limit was reached"),
        (ev.Hung(at_ms=1, attempt=1, node="node-a", cause="rank 1 is stuck"), "it hung: rank 1 is stuck"),
        (ev.Hung(at_ms=1, attempt=1, node="node-a", actor="user:alice"), "alice restarted it, for it hung"),
        (ev.Corrupted(at_ms=1, attempt=1, step=20, nodes=("node-a",), damaged=(), instead=None, cause="rank 1 differs"),
         "its ranks computed different results at step 20: rank 1 differs"),
        (ev.NodeLost(at_ms=1, node="node-a", cause="no heartbeat for 31 s"), "node-a was lost: no heartbeat for 31 s"),
    ],
)  # fmt: skip
def test_each_event_is_a_line_with_its_numbers_and_cause(event: ev.JobEvent, line: str):
    assert ev.describe(event) == line
