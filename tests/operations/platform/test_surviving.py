"""Nodes that can be killed, in a platform of their own: spare nodes take over, and a rank that computes wrongly is
taken out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rig.survival_site import Node, Site
from tests.e2e.site import until
from trainmaster.answers import Job

COMPARES = Path(__file__).parent / "compares.py"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def submit(rig: Site, name: str, **fields: Any) -> str:
    return rig.submit(
        0, script=COMPARES, name=name, checkpoint={"interval_steps": 5, "keep_last": 9}, **fields
    )


def finished(rig: Site, job_id: str) -> Job:
    def look() -> Job | None:
        job = rig.client.job(job_id)
        return job if job.is_finished else None

    return until("the end of the job", look)


def recoveries(rig: Site, job_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = rig.client.call("GET", f"training-jobs/{job_id}/recoveries")
    return answer


def places(rig: Site, job_id: str) -> list[set[str]]:
    names = {node.id: node.hostname for node in rig.client.nodes()}
    placed = [event for event in rig.client.events(job_id) if event["kind"] == "Placed"]
    return [{names[member["node"]] for member in event["data"]["members"]} for event in placed]


def test_a_killed_node_is_replaced_by_the_spare_that_has_the_checkpoint_already(
    rig: Site, tmp_path: Path
) -> None:
    enough = tmp_path / "enough"
    environment = {"WRONG_FROM": "1000000", "GO_ON_UNTIL": str(enough)}
    job = submit(rig, "has-a-spare", num_gpus=4, spares=1, environment=environment)
    [spare] = until("a spare node", lambda: recoveries(rig, job)["spares"])
    until("a checkpoint", lambda: rig.client.job(job).latest_checkpoint)
    node = next(node for node in rig.nodes if node.name == spare["node"])
    until(
        "a checkpoint on the spare", lambda: list(node.data.glob("models/_datasets/man-*/*/trainmaster.json"))
    )
    gang = places(rig, job)[-1]
    lost = next(node for node in rig.nodes if node.name == min(gang))
    with killed(rig, lost):
        after = until("its first step on other nodes", lambda: recovered_from(rig, job, "node_lost"))
        enough.touch()
        assert finished(rig, job).state == "succeeded", what_happened(rig, job)
    assert places(rig, job)[after - 1] == {*gang - {lost.name}, spare["node"]}


@contextmanager
def killed(rig: Site, node: Node) -> Iterator[None]:
    """It is back afterwards, for the test after this one."""
    node.kill()
    try:
        yield
    finally:
        node.start()
        until("three ready nodes", lambda: sum(each.state == "ready" for each in rig.client.nodes()) == 3)


def test_a_rank_that_computes_wrongly_loses_its_node_and_the_run_goes_back(rig: Site, tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    environment = {"WRONG_FROM": "42", "GO_ON_UNTIL": str(enough)}
    check = {"every_steps": 10, "tolerance_ppm": 0}
    job = submit(
        rig, "is-compared", num_gpus=4, strategy="ddp", corruption_check=check, environment=environment
    )
    [found] = until("the difference", lambda: recoveries(rig, job)["corruption"]["found"])
    assert found["step"] == 50
    after = until("the first step after it", lambda: recovered_from(rig, job, "silent_corruption"))
    enough.touch()
    assert finished(rig, job).state == "succeeded", what_happened(rig, job)
    texts = until("what the ranks said of it", lambda: went_on(rig, job))
    agreed = {"went on from step 40", "went on from step 35"}  # the newest whole one that agreed
    assert set(texts) <= agreed, what_happened(rig, job)
    assert len(found["nodes"]) == 1
    assert found["suspects"] == []
    nodes = until("the node to leave service", lambda: out_of_service(rig))
    assert nodes == found["nodes"]
    assert not places(rig, job)[after - 1] & set(nodes)
    doubted = {each["step"]: each["damaged"] for each in rig.client.checkpoints(job) if each["damaged"]}
    assert min(doubted) == 45
    assert "had not agreed since it was saved" in doubted[45]


def recovered_from(rig: Site, job_id: str, reason: str) -> int:
    """The number of the attempt that went on after it; 0 before that has made a step."""
    over = [row for row in recoveries(rig, job_id)["results"] if row["over"] and row["reason"] == reason]
    return over[0]["attempt"] + 1 if over else 0


def what_happened(rig: Site, job_id: str) -> list[tuple[str, str]]:
    return [(event["kind"], str(event["data"])) for event in rig.client.events(job_id)]


def went_on(rig: Site, job_id: str) -> list[str]:
    return [line.text for line in rig.client.logs(job_id, search="went on from").lines]


def out_of_service(rig: Site) -> list[str]:
    nodes = rig.client.call("GET", "nodes")["results"]
    return sorted(node["hostname"] for node in nodes if node["out_of_service"])
