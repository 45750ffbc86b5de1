"""Slots that are shares of a GPU: what their type says, what a process may take, and who may ask for one."""

import pytest

from platform_core.cluster.gpu_shares import OWN_BYTES, allocator_share, larger, shared_type, shares_of
from platform_core.jobs.reader import SpecError
from platform_core.jobs.spec import parse as parse_job
from platform_core.serving.spec import parse as parse_endpoint

GIB = 1 << 30
JOB = {"name": "j", "team": "vision", "command": "python train.py", "strategy": "custom"}
ENDPOINT = {"name": "e", "team": "vision", "model": "mlp"}


@pytest.mark.parametrize(
    ("kind", "shares"), [("h100-80gb", 1), ("h100-80gb-1of4", 4), ("cpu", 1), ("a-1of8", 8)]
)
def test_a_type_says_how_many_slots_a_gpu_has(kind: str, shares: int) -> None:
    assert shares_of(kind) == shares
    assert shares_of(shared_type("l4-24gb", shares)) == shares


@pytest.mark.parametrize("shares", [2, 4, 8])
def test_processes_in_their_shares_fit_on_the_gpu_together(shares: int) -> None:
    total = 80 * GIB
    part = allocator_share(1 / shares, total)
    assert shares * (part * total + OWN_BYTES) <= total + 1


def test_a_share_without_room_for_a_context_is_refused() -> None:
    with pytest.raises(ValueError, match="a share of 512 MiB has no room"):
        allocator_share(1 / 8, 4 * GIB)


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"num_gpus": 1}, "gpu_type", "only replicas of endpoints"),
        ({"num_gpus": 2, "kind": "service"}, "num_gpus", "ask for one"),
    ],
)
def test_a_job_that_cannot_keep_to_a_share_is_refused(
    fields: dict[str, object], field: str, sentence: str
) -> None:
    with pytest.raises(SpecError) as refused:
        parse_job({**JOB, "gpu_type": "h100-80gb-1of4", **fields})
    assert [(one.field, sentence in one.sentence) for one in refused.value.problems] == [(field, True)]


def test_a_replica_takes_one_share() -> None:
    parse_job({**JOB, "gpu_type": "h100-80gb-1of4", "num_gpus": 1, "kind": "service"})
    assert parse_endpoint({**ENDPOINT, "gpu_type": "h100-80gb-1of4"}).gpus == 1
    with pytest.raises(SpecError, match="a replica has one; for more memory ask for one of h100-80gb-1of2"):
        parse_endpoint({**ENDPOINT, "gpu_type": "h100-80gb-1of4", "gpus": 2})


@pytest.mark.parametrize(
    ("kind", "slots", "enough"),
    [
        ("h100-1of8", 2, "h100-1of4"),
        ("h100-1of8", 3, "h100-1of2"),  # thirds are no part of it: the next larger one
        ("h100-1of4", 4, "h100"),
        ("h100-1of4", 9, "h100"),
        ("h100", 2, "h100"),
    ],
)
def test_a_larger_share_has_at_least_as_much(kind: str, slots: int, enough: str) -> None:
    assert larger(kind, slots) == enough
    assert 1 / shares_of(enough) >= min(1, slots / shares_of(kind))
