"""The layout of a job: which sizes divide its GPUs, with every number of GPUs that it may run with."""

from __future__ import annotations

import pytest
from hypothesis import given as given_that
from hypothesis import strategies as st

from platform_core.jobs.parallel import NONE, ORDER, Parallel, from_text
from platform_core.jobs.spec import SpecError, as_mapping, given, load, parse
from tests.core.jobs.situations import MINIMAL

SIZES = st.integers(1, 6)
LAYOUTS = st.builds(
    Parallel,
    dp=st.none() | SIZES,
    fsdp=SIZES,
    tp=SIZES,
    sp=st.booleans(),
    cp=SIZES,
    pp=SIZES,
    ep=SIZES,
)


def problems(num_gpus: int, parallel: object, **fields: object) -> dict[str, str]:
    try:
        parse({**MINIMAL, "num_gpus": num_gpus, "parallel": parallel, **fields})
    except SpecError as error:
        return {problem.field: problem.sentence for problem in error.problems}
    return {}


def test_a_layout_is_read_written_and_loaded_again() -> None:
    spec = parse({**MINIMAL, "num_gpus": 16, "parallel": {"fsdp": 2, "tp": 4, "pp": "2", "sp": "yes"}})
    assert spec.parallel == Parallel(fsdp=2, tp=4, pp=2, sp=True)
    assert load(as_mapping(spec)) == spec == parse(as_mapping(spec))
    assert given(as_mapping(spec))["parallel"] == {"fsdp": 2, "tp": 4, "pp": 2, "sp": True}
    assert spec.parallel.title == "pp 2 x fsdp 2 x tp 4 with sp"
    assert spec.parallel.sized(32).dimensions == (("pp", 2), ("dp", 2), ("fsdp", 2), ("tp", 4))


def test_a_job_without_a_layout_says_nothing_of_one() -> None:
    spec = parse({**MINIMAL, "num_gpus": 7, "min_gpus": 3})
    assert spec.parallel == NONE
    assert not spec.parallel.is_given
    assert "parallel" not in given(as_mapping(spec))
    before = as_mapping(spec)
    del before["parallel"]  # as a version without layouts wrote it
    assert load(before) == spec


@pytest.mark.parametrize(
    ("num_gpus", "parallel", "field", "words"),
    [
        (12, {"fsdp": 2, "tp": 4}, "num_gpus", "takes 8 GPUs (fsdp 2 x tp 4); choose 8 or 16"),
        (4, {"tp": 8}, "num_gpus", "choose 8, or lower one of the sizes"),
        (16, {"dp": 4, "tp": 8}, "parallel.dp", "which makes 32 GPUs with the other sizes (tp 8)"),
        (16, {"dp": 4, "tp": 8}, "parallel.dp", "num_gpus is 16; set it to 2, or leave it out"),
        (16, {"dp": 4}, "parallel.dp", "set it to 16"),
        (
            8,
            {"tp": 2, "ep": 3},
            "parallel.ep",
            "does not divide the 4 data ranks of this job (dp 4 x fsdp 1)",
        ),
        (8, {"sp": True}, "parallel.sp", "no tensor ranks could share the sequence"),
        (8, {"tp": 0}, "parallel.tp", "whole number from 1"),
        (8, {"tp": "two"}, "parallel.tp", "whole number from 1"),
        (8, {"dp": 1.5}, "parallel.dp", "whole number from 1"),
        (8, {"tensor": 2}, "parallel.tensor", "is not a field"),
        (8, 4, "parallel", "must be a mapping"),
    ],
)
def test_sizes_that_do_not_divide_the_gpus_are_refused_with_the_numbers(
    num_gpus: int, parallel: object, field: str, words: str
) -> None:
    assert words in problems(num_gpus, parallel)[field]


def test_an_elastic_job_changes_by_whole_replicas() -> None:
    assert problems(32, {"tp": 4, "pp": 2}, min_gpus=8) == {}
    sentence = problems(32, {"tp": 4, "pp": 2}, min_gpus=12)["min_gpus"]
    assert "whole replicas of 8 GPUs (tp 4 x pp 2); choose 8 or 16" in sentence
    # Experts over four data ranks need four of them, however few copies of the rest there are.
    assert "replicas of 8 GPUs" in problems(32, {"tp": 2, "ep": 4}, min_gpus=4)["min_gpus"]


def test_roles_and_layouts_exclude_each_other() -> None:
    assert "keep one of the two" in problems(4, {"tp": 2}, roles={"ps": 1, "worker": 3})["roles"]


@given_that(LAYOUTS, st.integers(1, 300), st.integers(1, 300))
def test_an_accepted_layout_divides_every_size_of_the_job(
    parallel: Parallel, num_gpus: int, min_gpus: int
) -> None:
    fields = {name: value for name, value in as_mapping_of(parallel).items() if value is not None}
    found = problems(num_gpus, fields, min_gpus=min_gpus)
    copies, rest = divmod(num_gpus, parallel.fsdp * parallel.tp * parallel.cp * parallel.pp)
    sound = (
        not rest
        and parallel.dp in (None, copies)
        and copies * parallel.fsdp % parallel.ep == 0
        and not (parallel.sp and parallel.tp == 1)
        and min_gpus <= num_gpus
        and min_gpus % parallel.replica == 0
    )
    if not parallel.is_given:
        assert bool(found) == (min_gpus > num_gpus)
        return
    assert bool(found) == (not sound), found
    if sound:
        for size in range(min_gpus, num_gpus + 1, parallel.replica):
            sized = parallel.sized(size)
            assert sized.dp is not None
            assert sized.dp >= 1
            assert sized.dp * sized.copy == size
            assert sized.dp * sized.fsdp % sized.ep == 0


@given_that(LAYOUTS)
def test_the_text_of_a_layout_is_read_back(parallel: Parallel) -> None:
    assert from_text(parallel.text) == parallel


@given_that(LAYOUTS)
def test_tensor_ranks_are_innermost_and_stages_outermost(parallel: Parallel) -> None:
    names = [name for name, _ in parallel.dimensions]
    assert names == [name for name in ORDER if name in names]
    assert ORDER[0] == "pp"
    assert ORDER[-1] == "tp"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tp", "tp is 'nothing'"),
        ("tp=", "tp is 'nothing'"),
        ("tp=x", "tp is 'x'"),
        ("t=2", "t is not a field"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        from_text(text)


def test_a_text_may_have_spaces_or_commas() -> None:
    assert from_text(" tp=2, pp=2 fsdp=2 ") == Parallel(tp=2, pp=2, fsdp=2)
    assert from_text("") == NONE


def as_mapping_of(parallel: Parallel) -> dict[str, object]:
    return {name: getattr(parallel, name) for name in ("dp", "fsdp", "tp", "sp", "cp", "pp", "ep")}
