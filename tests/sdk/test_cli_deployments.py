"""Commands about models, deployments and rollouts, against a platform that is a real HTTP server."""

import json
from pathlib import Path

from tests.sdk.conftest import ME, Trainmaster
from tests.sdk.platform_stub import PlatformStub


def test_a_model_is_registered_and_deployed(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer("GET me", ME)
    version = {
        "id": "mv-1",
        "model": "vision/bytelm",
        "version": 1,
        "state": "ready",
        "bytes": 2048,
        "source": "ckpt-1",
    }
    platform.answer("POST models/bytelm/versions", version, 201)
    platform.answer("GET models", {"results": [version]})
    deployed = {"id": "dep-1", "status": "complete", "progress": 1.0, "workers": 2, "workers_complete": 2}
    planned = [{"strategy": "mesh", "time_seconds": 1.5}, {"strategy": "chain", "time_seconds": 2}]
    estimate = {"estimated_time_seconds": 1.5, "strategy": "mesh", "strategies": planned}
    platform.answer("POST deployments", {**deployed, **estimate}, 201)
    platform.answer("GET deployments", {"results": [deployed]})
    assert trainmaster("register", "bytelm", "--checkpoint", "ckpt-1").stdout == "vision/bytelm version 1\n"
    assert "2 KiB" in trainmaster("models").stdout
    told = trainmaster("deploy", "bytelm", "1", "--nodes", "n1, n2", "--watch")
    assert told.stdout == "dep-1\n"
    assert "It takes about 1.5 s by mesh (chain 2 s)." in told.stderr
    assert "complete  100%  2 of 2 workers complete" in told.stderr
    [asked] = platform.requests("POST", "deployments")
    assert asked.json == {"model_id": "vision/bytelm", "version": 1, "target_workers": ["n1", "n2"]}
    assert "100%" in trainmaster("deployments").stdout


def test_a_plan_compares_the_strategies_and_moves_nothing(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    one = {"store_copies": 1, "most_sent_copies": 1, "cross_rack_copies": 3, "most_uplink_copies": 2}
    plan = {
        "model": "vision/bytelm", "version": 1, "strategy": "mesh", "bytes": 5 * 10**11, "workers": 100,
        "rate": 1_250_000_000, "bound_seconds": 400.1, "strategies": [
            {**one, "strategy": "mesh", "time_seconds": 401, "ratio": 1.0022},
            {**one, "strategy": "sequential", "time_seconds": 40_000, "ratio": 99.97, "store_copies": 100},
        ],
    }  # fmt: skip
    plan["short_of_room"] = [{"node": "gpu-7", "free": 3 << 30}]
    platform.answer("POST deployments/plan", plan)
    told = trainmaster("deploy", "vision/bytelm", "1", "--plan", "--nodes", "n1")
    [_, mesh, sequential] = told.stdout.splitlines()
    assert " ".join(mesh.split()) == "mesh 6 min 41 s 1.00 x 1 1 3 2 <- would be used"
    assert "99.97 x" in sequential
    assert "the theoretical minimum is 6 min 40 s. Nothing was sent." in told.stderr
    assert "over the busiest rack's UPLINK" in told.stderr
    assert "free: gpu-7 3 GiB" in told.stderr
    [asked] = platform.requests("POST", "deployments")
    assert asked.json["strategy"] == "auto"
    assert (
        json.loads(trainmaster("deploy", "vision/bytelm", "1", "--plan", "--json").stdout)["workers"] == 100
    )


def test_a_model_is_preheated_and_pinned(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    begun = {"id": "dep-2", "status": "init", "preheat": True}
    platform.answer("POST deployments", begun, 201)
    platform.answer("PATCH deployments/dep-2", {**begun, "pinned": True})
    platform.answer("PATCH deployments/dep-2", {**begun, "pinned": False})
    listed = {**begun, "status": "complete", "pinned": True, "workers_evicted": 1, "workers": 2}
    nowhere = {**begun, "id": "dep-1", "status": "evicted", "workers_evicted": 2, "workers": 2}
    platform.answer("GET deployments", {"results": [listed, nowhere]})
    assert trainmaster("preheat", "vision/bytelm", "3", "--strategy", "auto").stdout == "dep-2\n"
    [asked] = platform.requests("POST", "deployments")
    assert (asked.json["preheat"], asked.json["strategy"]) == (True, "auto")
    assert "dep-2 is pinned" in trainmaster("pin", "dep-2").stdout
    assert "not pinned any more" in trainmaster("pin", "dep-2", "--off").stdout
    assert [one.json for one in platform.requests("PATCH")] == [{"pin": True}, {"pin": False}]
    told = trainmaster("deployments").stdout
    assert "complete (preheated, pinned, evicted from 1)" in told
    assert "evicted (preheated, evicted from 2)" in told


def test_a_failed_deployment_is_tried_again_and_watched(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    told = {"id": "dep-2", "model": "vision/bytelm", "version": 2, "workers": 2}
    platform.answer("POST deployments/dep-2/retry", {**told, "status": "distributing"})
    assert trainmaster("retry", "dep-2").stdout == "dep-2 is distributing\n"
    failed = {**told, "status": "failed", "workers_failed": 1, "reason": "node-1: the disk is full"}
    platform.answer("GET deployments/dep-2", failed)
    assert "the disk is full" in trainmaster("retry", "dep-2", "--watch", code=1).stderr
    assert json.loads(trainmaster("retry", "dep-2", "--json").stdout)["status"] == "distributing"


def test_a_version_is_switched_on_promoted_and_rolled_back(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    platform.answer("GET me", {**ME, "token_team": "vision", "teams": {"vision": "lead"}})
    rollout = {"state": "holding", "nodes": 3, "nodes_active": 1}
    begun = {"id": "dep-2", "status": "init", "model": "vision/bytelm", "version": 2, "rollout": rollout}
    platform.answer("POST deployments", begun, 201)
    words = (
        "--canary",
        "1",
        "--hold",
        "600",
        "--check-every",
        "5",
        "--roll-back-after",
        "3",
        "--health-check",
        "check-model",
        "--hook",
        "reload",
        "--wait-for-all",
    )
    trainmaster("deploy", "vision/bytelm", "2", *words)
    trainmaster("deploy", "vision/bytelm", "2", "--activate")
    trainmaster("deploy", "vision/bytelm", "2")
    full, bare, none = (one.json for one in platform.requests("POST", "deployments"))
    assert full["rollout"] == {
        "canary": "1", "check_every_seconds": 5, "roll_back_after": 3, "hold_seconds": 600,
        "health_check": "check-model", "hook": "reload", "wait_for_all": True,
    }  # fmt: skip
    assert (bare["rollout"], "rollout" in none) == ({}, False)
    platform.answer("POST deployments/dep-2/promote", begun)
    told = trainmaster("promote", "dep-2").stdout
    assert told == "vision/bytelm version 2 (dep-2) is holding; 1 of 3 nodes run it\n"
    older = {**begun, "id": "dep-1", "version": 1, "rollout": {"state": "active", "replaced_by": 2}}
    undone = {**begun, "id": "dep-3", "rollout": {"state": "rolled_back"}}
    platform.answer("GET deployments", {"results": [undone, {"id": "dep-4", "status": "init"}, begun, older]})
    platform.answer(
        "POST deployments/dep-2/rollback", {**begun, "rollout": {**rollout, "state": "rolled_back"}}
    )
    assert "(dep-2) is rolled back" in trainmaster("rollback", "vision/bytelm").stdout
    asked = [one.path for one in platform.requests("GET", "deployments")]
    assert asked == ["deployments?model_id=vision%2Fbytelm"], "it may be older than the newest hundred of all"
    assert "vision/other has no rollout" in trainmaster("rollback", "vision/other", code=1).stderr
    listed = trainmaster("deployments").stdout
    assert "rollout rolled back" in listed
    assert "replaced by version 2" in listed


def test_a_rollout_is_watched_to_its_end_and_back(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer("GET me", {**ME, "token_team": "vision", "teams": {"vision": "lead"}})
    begun = {"id": "dep-2", "status": "complete", "model": "vision/bytelm", "version": 2}

    def rollout(state: str, active: int, **told: object) -> dict[str, object]:
        return {**begun, "rollout": {"state": state, "nodes": 2, "nodes_active": active, **told}}

    def says(request: str, body: dict[str, object]) -> None:
        platform.answers[request] = [(200, body)]

    platform.answer("POST deployments", rollout("canary", 0), 201)
    says("GET deployments/dep-2", rollout("holding", 1, awaits_promotion=True))
    held = trainmaster("deploy", "vision/bytelm", "2", "--canary", "1", "--watch")
    assert "1/2 nodes run it  rollout holding" in held.stderr
    assert "trainmaster promote dep-2" in held.stderr
    says("POST deployments/dep-2/promote", rollout("promoting", 1))
    says("GET deployments/dep-2", rollout("active", 2))
    assert "is active; 2 of 2 nodes run it" in trainmaster("promote", "dep-2", "--watch").stdout
    says("POST deployments/dep-2/rollback", rollout("rolled_back", 0, nodes_going_back=2))
    says("GET deployments/dep-2", rollout("rolled_back", 0, nodes_going_back=0))
    back = trainmaster("rollback", "dep-2", "--watch").stderr
    assert back.splitlines() == [
        "2 still switch back  rolled back",
        "every node runs its previous version  rolled back",
    ]
    says("GET deployments/dep-2", rollout("rolled_back", 0, nodes_going_back=0, nodes_away=1))
    without = trainmaster("rollback", "dep-2", "--watch").stderr
    assert without.splitlines()[-1] == "1 lost, switch back when they reconnect  rolled back"
    stopped = rollout("failed", 0, reason="n1: check-model ended with 7")
    says("GET deployments/dep-2", stopped)
    told = trainmaster("deployments", "dep-2", "--watch", code=1).stderr
    assert "The rollout of dep-2 is failed: n1: check-model ended with 7" in told
    platform.answer("GET deployments", {"results": [stopped]})
    assert "No deployment is in progress." in trainmaster("deployments", "--watch").stderr


def test_a_rollout_is_shown_with_what_the_checks_of_its_canaries_said(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    checks = [
        {"node": "node-1", "exit_code": 0, "output": "", "failures": 0},
        {"node": "node-2", "exit_code": 3, "output": "loading\nno such layer\n", "failures": 1},
        {"node": "node-3", "exit_code": None, "output": "", "failures": 1},
    ]
    rollout = {
        "state": "failed",
        "reason": "a check failed",
        "nodes": 4,
        "nodes_active": 3,
        "nodes_failed": 1,
    }
    held = {**rollout, "canaries": ["node-1", "node-2", "node-3"], "checks": checks}
    told = {"id": "dep-2", "status": "complete", "model": "vision/bytelm", "version": 2, "strategy": "mesh"}
    platform.answer("GET deployments/dep-2", {**told, "rollout": held})
    shown = trainmaster("show", "dep-2").stdout
    for words in (
        "complete (rollout failed: a check failed)",
        "3 of 4 nodes",
        "node-1, node-2, node-3",
        "node-1 passed",
        "node-2 failed with exit code 3: no such layer",
        "node-3 did not answer in time",
    ):
        assert words in shown
    platform.answer("GET deployments/dep-3", {**told, "id": "dep-3"})
    assert "runs on" not in trainmaster("show", "dep-3").stdout


def test_a_version_is_evaluated_approved_and_moved_through_its_gate(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    platform.answer("GET me", ME)
    one = "models/vision/bytelm/versions/3"
    measured = {"mean": 0.95, "low": 0.9, "high": 0.99, "samples": 40}
    standing = {
        "model": "vision/bytelm", "version": 3, "stage": "candidate", "approvals": [{"user": "lena", "role": "lead"}],
        "evaluations": [{"suite": "held-out", "measured_by": "person", "metrics": {"accuracy": measured}}],
        "refused": {"staging": [], "production": ["it has 0 of 1 approvals"]},
    }  # fmt: skip
    platform.answer("PUT models/vision/bytelm/gate", {})
    platform.answer(f"POST {one}/evaluations", {}, 201)
    platform.answer(f"GET {one}/gate", standing)
    platform.answer(f"PUT {one}/approval", standing)
    platform.answer(f"PUT {one}/stage", {"model": "vision/bytelm", "version": 3, "stage": "staging"})
    policy, lines = tmp_path / "gate.yaml", tmp_path / "results.jsonl"
    policy.write_text("thresholds:\n  - {suite: held-out, metric: accuracy, bound: 0.9}\n")
    lines.write_text('{"id": 1, "metrics": {"accuracy": 1}}\n')
    assert trainmaster("gate", "set", "bytelm", str(policy)).stdout == "The gate of bytelm is set.\n"
    told = trainmaster("gate", "evaluate", "bytelm:3", str(lines), "--suite", "held-out").stdout
    assert "0.9 to 0.99" in told
    assert "production: refused\n  it has 0 of 1 approvals" in told
    assert "Approved by lena (lead)" in trainmaster("gate", "approve", "vision/bytelm:3").stdout
    assert (
        trainmaster("gate", "stage", "bytelm:3", "staging").stdout
        == "vision/bytelm version 3 is in staging.\n"
    )
    [given] = platform.requests("PUT", "models/vision/bytelm/gate")
    assert given.json == {"thresholds": [{"suite": "held-out", "metric": "accuracy", "bound": 0.9}]}
    assert "is not NAME:NUMBER" in trainmaster("gate", "show", "bytelm", code=2).stderr
