"""Several ranks: saving, loading and stopping are agreed on."""

import shutil
from pathlib import Path

import pytest

from tests.sdk.scripts import attempt_folder, events, run

# torch is imported once and the ranks are forked from there: its import is most of such a test's time.
PROGRAM = """
import os, random, signal, sys, torch, trainmaster
import torch.distributed as dist
from pathlib import Path
from trainmaster.checkpoints import loading

COUNT = 2
pids = []
for rank in range(COUNT):
    pids.append(os.fork())
    if not pids[-1]:
        break
else:
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    sys.exit(codes != [0] * COUNT)

os.environ.update(RANK=str(rank), WORLD_SIZE=str(COUNT))
said = open(f"said-{rank}", "w", buffering=1)
def say(text):
    print(text, file=said)
dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/rendezvous", rank=rank, world_size=COUNT)
BODY
dist.barrier()
dist.destroy_process_group()
"""


def ranks(folder: Path, body: str, **variables: object) -> list[list[str]]:
    """What each of two ranks said."""
    for old in (*folder.glob("said-*"), *folder.glob("rendezvous")):
        old.unlink()
    (folder / "ranks.py").write_text(PROGRAM.replace("BODY", body))
    run(["ranks.py"], folder, **variables)
    return [(folder / f"said-{rank}").read_text().splitlines() for rank in range(2)]


SAVE = """
random.seed(rank); torch.manual_seed(rank)
saved = trainmaster.save_checkpoint({"weight": torch.full((3,), 5.0)}, 7)
say(saved is not None)
say(f"{random.random()} {torch.rand(1).item()}")
"""
LOAD = """
state, step = trainmaster.load_checkpoint()
say(f"{step} {state['weight'].tolist()}")
say(f"{random.random()} {torch.rand(1).item()}")
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[str]]]:
    """A folder with a run that saved, and what its ranks said. Copy it; leave it as it is."""
    folder = tmp_path_factory.mktemp("saved")
    return folder, ranks(folder, SAVE)


def test_every_rank_goes_on_with_its_own_random_numbers(
    saved: tuple[Path, list[list[str]]], tmp_path: Path
) -> None:
    before, said = saved
    assert [lines[0] for lines in said] == ["True", "False"]
    assert said[0][1] != said[1][1]
    shutil.copytree(before, tmp_path, dirs_exist_ok=True)
    loaded = ranks(tmp_path, LOAD, TRAINMASTER_RESUME="auto")
    assert [lines[0] for lines in loaded] == ["7 [5.0, 5.0, 5.0]"] * 2
    assert [lines[1] for lines in loaded] == [lines[1] for lines in said]


NODES = """
for copy in ("missing", "damaged", "good"):
    os.chdir(f"node-{rank}-{copy}")  # a relative path of rank 0 leads nowhere on another node
    loaded = loading.load(loading.Source([Path("resume")], print, go_back=False))
    os.chdir("..")
    say(f"{copy} {loaded.step} {loaded.state['weight'].tolist()} {loaded.random_restored}")
"""


def test_a_node_without_a_good_copy_gets_the_bytes_of_rank_0(
    saved: tuple[Path, list[list[str]]], tmp_path: Path
) -> None:
    [checkpoint] = (saved[0] / "trainmaster-runs").glob("*/checkpoints/step-*")
    for copy in ("missing", "damaged", "good"):
        shutil.copytree(checkpoint, tmp_path / f"node-0-{copy}" / "resume")
        shutil.copytree(checkpoint, tmp_path / f"node-1-{copy}" / "resume")
    shutil.rmtree(tmp_path / "node-1-missing" / "resume")
    [tensors] = (tmp_path / "node-1-damaged" / "resume").glob("*.safetensors")
    tensors.write_bytes(b"")
    expected = [f"{copy} 7 [5.0, 5.0, 5.0] True" for copy in ("missing", "damaged", "good")]
    assert ranks(tmp_path, NODES) == [expected] * 2


CORRUPT = """
try:
    trainmaster.load_checkpoint()
except trainmaster.CheckpointCorrupt as error:
    say(error)
"""


def test_under_the_platform_a_corrupt_checkpoint_is_refused_on_every_rank(
    saved: tuple[Path, list[list[str]]], tmp_path: Path
) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    [checkpoint] = (saved[0] / "trainmaster-runs").glob("*/checkpoints/step-*")
    copy = attempt / "checkpoints" / checkpoint.name
    shutil.copytree(checkpoint, copy)
    [tensors] = copy.glob("*.safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"?")
    said = ranks(tmp_path, CORRUPT, TRAINMASTER_DIR=attempt)
    assert said[0] == said[1]
    assert ".safetensors was damaged after it was saved" in said[0][0]
    assert copy.exists()  # evidence, and not ours to remove


FULL = """
try:
    trainmaster.save_checkpoint({"weight": torch.ones(1)}, 1)
except trainmaster.CheckpointNotSaved as error:
    say(error)
"""


def test_no_rank_waits_for_ever_when_rank_0_cannot_save(tmp_path: Path) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    (attempt / "checkpoints").rmdir()
    (attempt / "checkpoints").write_text("in the way")
    said = ranks(tmp_path, FULL, TRAINMASTER_DIR=attempt)
    assert said[0] == said[1]
    assert "The checkpoint of step 1 was not saved" in said[0][0]


STOP = """
step = 0
while True:
    step += 1
    if step == 3 and rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    if trainmaster.should_stop():
        break
say(step)
"""


def test_all_ranks_leave_at_the_same_step_when_one_is_asked(tmp_path: Path) -> None:
    said = ranks(tmp_path, STOP)
    assert said[0] == said[1]
    assert int(said[0][0]) > 3


LEAVE = """
import atexit, threading
atexit.register(lambda: say([thread.name for thread in threading.enumerate()]))
trainmaster.should_stop()
"""


def test_the_threads_that_agree_end_before_the_interpreter(tmp_path: Path) -> None:
    """One that came back from a collective after that would abort its process."""
    said = ranks(tmp_path, LEAVE)
    assert ["trainmaster-orders" in lines[0] for lines in said] == [False, False]


def test_all_ranks_seed_alike_and_rank_0_tells_the_curves(tmp_path: Path) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    body = "trainmaster.init()\nsay(torch.rand(1).item())\ntrainmaster.log(1, loss=rank)\n"
    said = ranks(tmp_path, body, TRAINMASTER_DIR=attempt, TRAINMASTER_SEED=5)
    assert said[0] == said[1]
    assert [event["kind"] for event in events(attempt / "spool" / "rank-0.jsonl")] == ["init", "metrics"]
    assert not (attempt / "spool" / "rank-1.jsonl").exists()
