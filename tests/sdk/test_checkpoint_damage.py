"""A thousand random damages to a checkpoint: each is found, and nothing of it is loaded."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sdk.checkpoints_made import load_one, make_saver, save, save_format_1
from tests.sdk.scripts import environment
from trainmaster.checkpoints import layout
from trainmaster.checkpoints.folder import CheckpointCorrupt
from trainmaster.checkpoints.layout import Block
from trainmaster.checkpoints.saving import Request


@pytest.mark.parametrize("write", [save, save_format_1])
def test_a_thousand_flips_truncations_and_losses_are_all_found_and_none_is_loaded(
    tmp_path: Path, write: object
) -> None:
    state = {"a": torch.arange(300.0), "b": {"c": torch.arange(7)}, "lr": 0.5}
    folder = write(tmp_path, state)  # type: ignore[operator]
    files = [path for path in sorted(folder.iterdir()) if path.name != "trainmaster.json"]
    dice = random.Random(1)
    caught = loaded_wrong = 0
    tries = 500
    for _ in range(tries):
        path = dice.choice(files)
        whole = path.read_bytes()
        kind = dice.choice(["flip", "flip", "flip", "truncate", "remove"])
        if kind == "flip":
            at, damaged = dice.randrange(len(whole)), bytearray(whole)
            damaged[at] ^= 1 << dice.randrange(8)
            path.write_bytes(damaged)
        elif kind == "truncate":
            path.write_bytes(whole[: dice.randrange(len(whole))])
        else:
            path.unlink()
        into = {"a": torch.full((300,), -1.0), "b": {"c": torch.full((7,), -1)}}
        try:
            load_one(folder, into)
        except CheckpointCorrupt:
            caught += 1
        loaded_wrong += bool((into["a"] != -1).any() or (into["b"]["c"] != -1).any())  # type: ignore[index, union-attr]
        path.write_bytes(whole)
    assert (caught, loaded_wrong) == (tries, 0)
    assert torch.equal(load_one(folder).state["a"], state["a"])  # type: ignore[arg-type]


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text(max_size=5),
    st.builds(
        lambda shape, dtype: torch.randint(0, 2, shape).to(dtype),
        st.lists(st.integers(0, 4), max_size=3),
        st.sampled_from(
            [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]
        ),
    ),
)  # fmt: skip
KEYS = st.one_of(st.text(max_size=4), st.integers(0, 9))
STATES = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(KEYS, inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(state=STATES)
def test_any_state_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, state: dict[object, object]
) -> None:
    parent = tmp_path_factory.mktemp("state")
    assert_same(load_one(save(parent, state)).state, state)  # type: ignore[arg-type]
    shutil.rmtree(parent)


def assert_same(loaded: object, saved: object) -> None:
    assert type(loaded) is type(saved)
    if isinstance(saved, torch.Tensor):
        assert isinstance(loaded, torch.Tensor)
        assert loaded.dtype == saved.dtype
        assert torch.equal(loaded, saved)
    elif isinstance(saved, dict):
        assert isinstance(loaded, dict)
        assert list(loaded) == list(saved)
        for key in saved:
            assert_same(loaded[key], saved[key])
    elif isinstance(saved, list | tuple):
        assert isinstance(loaded, list | tuple)
        assert len(loaded) == len(saved)
        for own, other in zip(loaded, saved, strict=True):
            assert_same(own, other)
    else:
        assert loaded == saved


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    limit=st.integers(4, 400),
)
def test_a_large_tensor_is_cut_into_blocks_that_cover_it_once(sizes: list[int], limit: int) -> None:
    shape = tuple(sizes)
    pieces = layout.split(Block("w", (0,) * len(shape), shape, shape, "float32", 4), limit)
    assert all(piece.bytes <= limit for piece in pieces)
    covered = torch.zeros(shape)
    for piece in pieces:
        box = covered
        for dimension, (offset, size) in enumerate(zip(piece.offsets, piece.sizes, strict=True)):
            box = box.narrow(dimension, offset, size)
        box += 1
    assert torch.equal(covered, torch.ones(shape))


def test_replicated_tensors_are_written_once_and_spread_over_the_ranks() -> None:
    blocks = [Block(f"w{number}", (0,), (100,), (100,), "float32", 4) for number in range(8)]
    shares = layout.share([blocks, blocks])
    assert [len(share) for share in shares] == [4, 4]
    assert {block.name for share in shares for block in share} == {block.name for block in blocks}


def test_tensors_that_differ_between_ranks_under_one_name_are_refused() -> None:
    one, other = (Block("w", (0,), (size,), (size,), "float32", 4) for size in (3, 4))
    with pytest.raises(ValueError, match=r"w is float32 \[3\] on rank 0 and float32 \[4\] on rank 1"):
        layout.share([[one], [other]])


def test_what_the_training_does_after_the_call_is_not_in_the_checkpoint(tmp_path: Path) -> None:
    saver = make_saver(tmp_path)
    weight = torch.ones(100_000)
    for step in range(1, 6):
        path = saver.save({"weight": weight}, Request(step, {}))
        weight += 1
        saver.wait()
        assert path is not None
        assert load_one(path).state["weight"].unique().tolist() == [float(step)]


KILLED = """
import os, sys, torch
from pathlib import Path
from trainmaster.checkpoints import writing
from tests.sdk.checkpoints_made import make_saver
from trainmaster.checkpoints.saving import Request
saver = make_saver(Path("checkpoints"))
state = {"weight": torch.ones(1000)}
saver.save(state, Request(1, {}, blocking=True))
original = writing._write
def write(path, data):
    original(path, data)
    if path.name == sys.argv[1]:
        os.kill(os.getpid(), 9)
writing._write = write
saver.save(state, Request(2, {}))
saver.wait()
"""


@pytest.mark.parametrize("file", ["rank-00000-000.safetensors", "tensors.json", "trainmaster.json"])
def test_a_process_killed_during_a_save_leaves_the_checkpoint_before(tmp_path: Path, file: str) -> None:
    variables = environment() | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, file], cwd=tmp_path, env=variables, check=False)
    assert done.returncode == -signal.SIGKILL
    parent = tmp_path / "checkpoints"
    assert [path.name for path in parent.glob("step-*")] == ["step-00000001"]
    assert load_one(parent / "step-00000001").step == 1
    make_saver(parent).save({"weight": torch.ones(1)}, Request(3, {}, blocking=True))
    assert sorted(path.name for path in parent.iterdir()) == ["step-00000001", "step-00000003"]


def test_two_saves_at_once_wait_or_the_second_is_left_out(tmp_path: Path) -> None:
    saver = make_saver(tmp_path)
    state = {"weight": torch.ones(3_000_000)}
    saver.save(state, Request(1, {}))
    skipped = saver.save(state, Request(2, {}, when_busy="skip"))
    saver.save(state, Request(3, {}))
    saver.wait()
    steps = [
        json.loads((path / "trainmaster.json").read_text())["step"] for path in sorted(tmp_path.iterdir())
    ]
    assert steps == ([1, 3] if skipped is None else [1, 2, 3])
