from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from platform_core.jobs.spec import (
    FIELDS,
    PRIORITIES,
    JobSpec,
    Problem,
    SpecError,
    Strategy,
    as_mapping,
    load,
    parse,
    restore,
)
from platform_core.jobs.spec import given as given_fields
from platform_core.node.wanted import Launch
from tests.core.jobs.situations import MINIMAL

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).filter(
    lambda name: not name.startswith("TRAINMASTER_")
)
LINES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=40)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
SCALARS = (
    VALUES | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
)


@st.composite
def good_mappings(draw: st.DrawFn) -> dict[str, object]:
    environment = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    num_gpus = draw(st.integers(1, 10_000))
    strategy = draw(st.sampled_from(Strategy))
    roles = {"ps": 1, "worker": f"{num_gpus - 1} python 'w w.py'"} if num_gpus > 1 else {"solo": "1"}
    by_roles = strategy is Strategy.ROLES
    hours = draw(st.integers(1, 720) | st.floats(0.001, 720) | st.just("1.5"))
    return {
        "name": draw(LINES),
        "team": "vision",
        "project": draw(LINES | st.just("")),
        "command": draw(st.lists(LINES, min_size=1, max_size=4) | st.just("python 'a b.py' --lr 0.1")),
        "code": draw(st.sampled_from(["", "man-0123456789abcdef0123456789abcdef"])),
        "environment": environment,
        "secrets": draw(st.lists(NAMES.filter(lambda name: name not in environment), max_size=3)),
        "num_gpus": num_gpus,
        "min_gpus": num_gpus if by_roles else draw(st.integers(1, num_gpus)),
        "gpu_type": draw(st.sampled_from(["a100-80gb", "cpu"])),
        "memory_per_gpu": draw(st.sampled_from(["8GiB", "512MiB", "1.5GiB", 12_345_678_901])),
        "priority": draw(st.integers(0, 100)),
        "preemptible": draw(st.booleans()),
        "max_runtime_hours": hours,
        "strategy": strategy.value,
        "roles": roles if by_roles else {},
        "checkpoint": draw(
            st.sampled_from([{}, {"interval_steps": 50}, {"keep_last": 9, "path": "out/./ckpt/"}])
        ),
        "dataset": draw(st.sampled_from(["", "stdlib-1"])),
        "purpose": "train",
        "hyperparameters": draw(st.dictionaries(LINES, SCALARS, max_size=5)),
        "tags": draw(st.lists(LINES, max_size=5)),
        "seed": draw(st.none() | st.integers(0, 2**63 - 1)),
        "experiment": draw(LINES | st.just("")),
    }


def problems_of(mapping: object) -> tuple[Problem, ...]:
    try:
        parse(mapping)
    except SpecError as error:
        return error.problems
    return ()


def problems(**fields: object) -> dict[str, str]:
    """Field → sentence of what is wrong when these are added to a sound minimal description."""
    return {problem.field: problem.sentence for problem in problems_of({**MINIMAL, **fields})}


@given(good_mappings())
def test_a_spec_survives_the_way_through_its_mapping_and_json(mapping: dict[str, object]):
    spec = parse(mapping)
    assert parse(as_mapping(spec)) == spec
    assert parse(json.loads(json.dumps(as_mapping(spec), sort_keys=True))) == spec


JUNK = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.lists(st.none(), max_size=2)
)


@given(
    st.dictionaries(
        st.sampled_from(list({name.partition(".")[0] for name in FIELDS})) | st.text(max_size=5),
        JUNK | st.builds(dict),
    )
)
@example({"num_gpus": "1\x1f"})  # a space to one part of Python, not to another
def test_whatever_is_sent_gives_a_spec_or_sentences(mapping: dict[str, object]):
    told = problems_of(mapping)
    if not told:
        assert parse(as_mapping(parse(mapping))) == parse(mapping)
    assert all(problem.sentence for problem in told)


def test_the_smallest_description_gets_sensible_values():
    spec = parse(MINIMAL)
    assert spec.command == ("python", "train.py")
    assert (spec.num_gpus, spec.min_gpus, spec.priority, spec.strategy) == (1, 1, 50, Strategy.TORCHRUN)
    assert spec.max_runtime_ms == 24 * 3_600_000
    assert not spec.preemptible


def test_min_gpus_is_all_of_them_unless_said():
    assert parse({**MINIMAL, "num_gpus": 8}).min_gpus == 8


def test_a_forms_texts_are_read_as_what_they_mean():
    spec = parse({**MINIMAL, "num_gpus": "4", "seed": "", "preemptible": "on", "max_runtime_hours": "1.5"})
    assert (spec.num_gpus, spec.seed, spec.preemptible, spec.max_runtime_ms) == (4, None, True, 5_400_000)


def test_every_problem_is_told_at_once():
    told = problems(
        name="", num_gpus=0, command=[], memory_per_gpu="8 apples", strategy="dp", dataset="stdlib-1",
        checkpoint={"keep_last": 0, "path": "../x"}, num_gpu=3, environment={"TRAINMASTER_X": "1", "1A": "x"},
    )  # fmt: skip
    assert set(told) == {
        "name", "num_gpus", "command", "memory_per_gpu", "strategy", "purpose", "checkpoint.keep_last",
        "checkpoint.path", "num_gpu", "environment.TRAINMASTER_X", "environment.1A",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"num_gpus": 10_001}, "num_gpus", "num_gpus is 10001; it must be a whole number from 1 to 10000"),
        ({"num_gpus": True}, "num_gpus", "num_gpus is True; it must be a whole number from 1 to 10000"),
        ({"num_gpus": 1.5}, "num_gpus", "num_gpus is 1.5; it must be a whole number from 1 to 10000"),
        ({"num_gpus": 4, "min_gpus": 8}, "min_gpus",
         "min_gpus is 8, more than num_gpus 4; lower min_gpus, or ask for 8 GPUs"),
        ({"name": "x" * 121}, "name", "name has 121 characters; the limit is 120"),
        ({"name": "two\nlines"}, "name", "name is 'two\\nlines'; it must be one line of readable text"),
        ({"priority": 101}, "priority", "priority is 101; it must be a whole number from 0 to 100"),
        ({"max_runtime_hours": 0}, "max_runtime_hours",
         "max_runtime_hours is 0; it must be more than 0 and at most 720"),
        ({"max_runtime_hours": 721}, "max_runtime_hours",
         "max_runtime_hours is 721; it must be more than 0 and at most 720"),
        ({"max_runtime_hours": float("nan")}, "max_runtime_hours",
         "max_runtime_hours is nan; it must be more than 0 and at most 720"),
        ({"command": "python 'open"}, "command",
         "command is \"python 'open\", which cannot be split into words: No closing quotation"),
        ({"command": "", "container_image": "train:1"}, "command",
         "command is empty (an image alone does not say what to train); say what to run, such as python train.py"),
        ({"command": "x " * 40_000}, "command", "command has 78.1 KiB; the limit is 64 KiB"),
        ({"hyperparameters": {"big": 2**63}}, "hyperparameters.big",
         "hyperparameters.big is 9223372036854775808; a whole number must fit into 64 bits, or be written as text"),
        ({"command": ["a\0b"]}, "command", "command has a character that no process can be given; remove it"),
        ({"memory_per_gpu": -1}, "memory_per_gpu", "memory_per_gpu is -1; it must be from 0 to 16 TiB"),
        ({"memory_per_gpu": "17TiB"}, "memory_per_gpu",
         "memory_per_gpu is '17TiB'; it must be from 0 to 16 TiB"),
        ({"environment": {"TRAINMASTER_JOB": "x"}}, "environment.TRAINMASTER_JOB",
         "TRAINMASTER_JOB begins with TRAINMASTER_, as the platform's own do; choose another name"),
        ({"environment": {"A": True}}, "environment.A",
         "environment.A is True; it must be text: put it in quotes"),
        ({"environment": {"KEY": "x"}, "secrets": ["KEY"]}, "environment",
         "KEY is both an environment name and a secret; keep it as a secret and remove it from environment"),
        ({"environment": {"A": "x" * 40_000}}, "environment",
         "environment has 39.1 KiB; the limit is 32 KiB: put the rest in a file"),
        ({"secrets": ["not-a-name"]}, "secrets",
         "'not-a-name' cannot name an environment variable; a name is letters, digits and _, begins with no digit "
         "and has at most 200 characters"),
        ({"dataset": "stdlib-1"}, "purpose",
         "purpose is missing although the dataset 'stdlib-1' is given; say what it is used for, such as train or eval"),
        ({"checkpoint": {"path": "/abs"}}, "checkpoint.path",
         "checkpoint.path is '/abs'; it must be relative, with / and without .."),
        ({"checkpoint": {"every": 5}}, "checkpoint.every",
         "checkpoint.every is not a field; the fields are interval_minutes, interval_steps, keep_last, path"),
        ({"checkpoint": {"interval_minutes": 120}, "max_runtime_hours": 1}, "checkpoint.interval_minutes",
         "no checkpoint would be due within the 1 h that the job may run; save more often, or raise "
         "max_runtime_hours"),
        ({"checkpoint": 5}, "checkpoint", "checkpoint is 5; it must be a mapping of names to values"),
        ({"tags": [f"t{n}" for n in range(21)]}, "tags", "there are 21 tags; the limit is 20"),
        ({"hyperparameters": {"opt": {"lr": 1}}}, "hyperparameters.opt",
         "hyperparameters.opt is {'lr': 1}; it must be text, a number, true or false; write a nested one flat, "
         "such as optimizer.lr"),
        ({"hyperparameters": {"lr": float("inf")}}, "hyperparameters.lr",
         "hyperparameters.lr is inf; it must be a finite number"),
        ({"seed": -1}, "seed", "seed is -1; it must be a whole number from 0 to 9223372036854775807"),
        ({"resume_from": "job-1"}, "resume_from", "resume_from is 'job-1'; it must be the id of a checkpoint, ckpt-…"),
        ({"nmae": "x"}, "nmae", "nmae is not a field; did you mean name?"),
    ],
)  # fmt: skip
def test_each_refusal_says_the_value_and_what_to_do(fields: dict[str, object], field: str, sentence: str):
    assert problems(**fields) == {field: sentence}


def test_a_list_is_no_description():
    with pytest.raises(SpecError, match="a job description is a mapping of fields"):
        parse(["name"])


def test_a_bad_number_is_not_also_a_bad_combination():
    assert set(problems(num_gpus=0, min_gpus=5)) == {"num_gpus"}


def test_what_is_just_within_the_limits_is_taken():
    fields = {"name": "x" * 120, "max_runtime_hours": 720, "checkpoint": {"interval_minutes": 720 * 60}}
    assert parse({**MINIMAL, **fields, "num_gpus": 10_000, "priority": 0}).name == "x" * 120


def test_all_of_a_checkpoint_policys_problems_are_told():
    told = problems(checkpoint={"keep_last": 0, "interval_minutes": 120}, max_runtime_hours=1)
    assert set(told) == {"checkpoint.keep_last", "checkpoint.interval_minutes"}


def test_a_checkpoint_path_is_kept_in_its_shortest_writing():
    assert parse({**MINIMAL, "checkpoint": {"path": "out//./a..b/"}}).checkpoint.path == "out/a..b"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"hyperparameters": {f"p{n}": n for n in range(201)}},
            "hyperparameters has 201 names; the limit is 200",
        ),
        ({"environment": {f"P{n}": "" for n in range(201)}}, "environment has 201 names; the limit is 200"),
        ({"secrets": [f"P{n}" for n in range(201)]}, "secrets has 201 names; the limit is 200"),
        ({"command": ["x" * 70_000]}, "command has 68.4 KiB; the limit is 64 KiB"),
    ],
)
def test_a_description_stays_of_a_size_that_can_be_handled(fields: dict[str, object], sentence: str):
    assert list(problems(**fields).values()) == [sentence]


@given(good_mappings())
def test_a_stored_spec_is_loaded_as_it_was_parsed(mapping: dict[str, object]):
    spec = parse(mapping)
    stored = json.loads(json.dumps(as_mapping(spec), sort_keys=True))
    assert load(stored) == restore(stored) == spec


def test_a_spec_stored_before_a_field_was_added_has_its_default():
    stored = as_mapping(parse({**MINIMAL, "max_racks": 2}))
    stored.pop("max_racks")
    assert load(stored) == parse(MINIMAL)


@pytest.mark.parametrize("field", [{"strategy": "parameter-server"}, {"num_gpus": "two"}, {"tags": None}])
def test_a_stored_spec_that_this_version_cannot_read_has_the_default_of_that_field(field: dict[str, object]):
    stored = {**as_mapping(parse(MINIMAL)), **field}
    with pytest.raises((TypeError, ValueError)):
        load(stored)
    assert restore(stored) == parse(MINIMAL)


def test_a_priority_may_be_given_by_its_name():
    assert [parse({**MINIMAL, "priority": name}).priority for name in PRIORITIES] == [20, 50, 80]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"num_gpus": 0}, "“GPUs” is 0; it must be a whole number from 1 to 10000"),
        (
            {"num_gpus": 4, "min_gpus": 8},
            "“Minimum GPUs” is 8, more than “GPUs” 4; lower “Minimum GPUs”, or ask for 8 GPUs",
        ),
        (
            {"checkpoint": {"keep_last": 0}},
            "“Checkpoints to keep” is 0; it must be a whole number from 1 to 1000",
        ),
        (
            {"hyperparameters": {"lr": float("inf")}},
            "lr in “Hyperparameters” is inf; it must be a finite number",
        ),
        (
            {"checkpoint": {"path": "/abs"}},
            "“Checkpoint folder” is '/abs'; it must be relative, with / and without ..",
        ),
    ],
)
def test_a_form_gets_the_sentences_in_the_words_of_its_labels(fields: dict[str, object], sentence: str):
    labels = {name: f"“{field.label}”" for name, field in FIELDS.items()}
    with pytest.raises(SpecError) as refused:
        parse({**MINIMAL, **fields}, labels)
    assert [problem.sentence for problem in refused.value.problems] == [sentence]


def test_only_what_differs_from_the_defaults_is_given():
    fields = {"num_gpus": 8, "checkpoint": {"keep_last": 3, "interval_steps": 50}, "tags": ["a"]}
    stored = as_mapping(parse({**MINIMAL, **fields}))
    assert list(given_fields(stored).items()) == [
        ("name", "bytelm"), ("team", "vision"), ("command", ["python", "train.py"]), ("gpu_type", "a100-80gb"),
        ("num_gpus", 8), ("checkpoint", {"interval_steps": 50}), ("tags", ["a"]),
    ]  # fmt: skip


def test_every_field_is_described_for_people():
    assert [name for name, field in FIELDS.items() if not (field.label and field.help)] == []
    assert len({field.label for field in FIELDS.values()}) == len(FIELDS)


def test_every_field_reaches_the_node_or_is_only_for_the_platform():
    reaches = {field.name for field in fields(Launch)} | {"name", "hyperparameters", "resume_from"}
    only_for_the_platform = {
        "project", "num_gpus", "min_gpus", "gpu_type", "priority", "preemptible", "max_runtime_ms", "max_restarts",
        "on_hang", "retention", "kind", "spares", "transformer", "serving_target",
        "git", "purpose", "tags", "experiment", "node_labels", "tolerations", "max_racks", "excluded_nodes",
    }  # fmt: skip
    assert {field.name for field in fields(JobSpec)} - reaches == only_for_the_platform


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "stream_dataset is set although no dataset is given"),
        ({"dataset": "ds-1", "purpose": "train", "mount_dataset": True}, "is set beside mount_dataset"),
    ],
)
def test_a_dataset_is_streamed_where_there_is_one_that_is_copied(
    given: dict[str, object], sentence: str
) -> None:
    with pytest.raises(SpecError, match=sentence):
        parse({**MINIMAL, **given, "stream_dataset": True})
    assert parse({**MINIMAL, "dataset": "ds-1", "purpose": "train", "stream_dataset": True}).stream_dataset
