"""One rank of `benchmarks.checkpoints`, under torchrun: MODE BYTES SAVES DEVICE FOLDER. Rank 0 prints JSON lines."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from trainmaster.checkpoints import loading
from trainmaster.checkpoints.saving import Request, Saver

TENSORS = 32
COLUMNS = 1024
STEPS = 60  # without a save; with one, as many as it lasts


def main(mode: str, size: int, saves: int, device: str, folder: Path) -> None:
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    state = state_of(size, device)
    lines = saved(state, saves, folder) if mode == "save" else loaded(state, folder)
    for line in lines:
        if dist.get_rank() == 0:
            print(json.dumps(line), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def state_of(size: int, device: str) -> dict[str, Any]:
    """Sharded by rows, as FSDP does; random, as zeros may be written faster."""
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    rows = size // 4 // COLUMNS // TENSORS // 12 * 12  # for up to four ranks
    torch.manual_seed(dist.get_rank())
    local = rows // dist.get_world_size()
    return {
        f"layer{number}": DTensor.from_local(
            torch.rand(local, COLUMNS, device=device), mesh, [Shard(0)], run_check=False
        )
        for number in range(TENSORS)
    }


def saved(state: dict[str, Any], saves: int, folder: Path) -> Iterator[dict[str, Any]]:
    torch_save_s = statistics.median([torch_save(state, folder / "torch") for _ in range(saves)])
    shutil.rmtree(folder / "torch", ignore_errors=True)
    group = dist.new_group(backend="gloo")
    dcp_s = statistics.median([dcp_async(state, folder / "dcp", group) for _ in range(saves)])
    shutil.rmtree(folder / "dcp", ignore_errors=True)
    saver = saver_in(folder / "ours")
    first_s, *others = [ours(saver, state, step) for step in range(1, saves + 2)]
    ours_s = statistics.median(others)
    raw_s = statistics.median([memory_copy(state) for _ in range(saves)])
    yield {
        "measure": "blocking", "torch_save_s": round(torch_save_s, 4), "dcp_async_s": round(dcp_s, 4),
        "ours_s": round(ours_s, 4), "ours_first_s": round(first_s, 4), "ratio": round(ours_s / torch_save_s, 4),
        "memory_copy_s": round(raw_s, 4),
    }  # fmt: skip
    yield overhead(saver, state, saves + 2)
    verified_s = [whole(saver, state, saves + 3 + number) for number in range(saves)]
    bare = saver_in(folder / "bare", verified=False)
    bare_s = [whole(bare, state, number) for number in range(1, saves + 2)][1:]
    shutil.rmtree(folder / "bare", ignore_errors=True)
    with_s, without_s = statistics.median(verified_s), statistics.median(bare_s)
    yield {
        "measure": "verification", "save_s": round(with_s, 4), "without_s": round(without_s, 4),
        "share": round(max(0.0, with_s - without_s) / with_s, 4),
    }  # fmt: skip
    [line] = loaded(state, folder)
    yield {"measure": "load", "seconds": line["seconds"]}


def saver_in(folder: Path, verified: bool = True) -> Saver:
    return Saver(folder, 1, now_ms, lambda path, description: None, print, verified)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def slowest(act: Callable[[], None]) -> float:
    """Seconds on the slowest rank, after all have begun together."""
    synchronise()
    dist.barrier()
    began = time.perf_counter()
    act()
    took = torch.tensor([time.perf_counter() - began], dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return float(took)


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def torch_save(state: dict[str, Any], folder: Path) -> float:
    """Each rank its part, forced to disk as ours is."""
    folder.mkdir(exist_ok=True)

    def act() -> None:
        with open(folder / f"rank-{dist.get_rank()}.pt", "wb") as file:
            torch.save({name: tensor.to_local() for name, tensor in state.items()}, file)
            file.flush()
            os.fsync(file.fileno())

    return slowest(act)


def dcp_async(state: dict[str, Any], folder: Path, group: Any) -> float:
    writing: list[Any] = []
    took = slowest(lambda: writing.append(async_save(state, checkpoint_id=folder, process_group=group)))
    writing[0].result()
    return took


def ours(saver: Saver, state: dict[str, Any], step: int) -> float:
    """The copy to the host is part of it: training waits until its tensors may change."""
    took = slowest(lambda: keep(saver, state, step))
    saver.wait()
    return took


def memory_copy(state: dict[str, Any]) -> float:
    """The same bytes into memory that is there: what no copy can beat."""
    sources = [tensor.to_local() for tensor in state.values()]
    targets = [torch.zeros_like(source, device="cpu") for source in sources]

    def act() -> None:
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)

    return slowest(act)


def whole(saver: Saver, state: dict[str, Any], step: int) -> float:
    return slowest(lambda: keep(saver, state, step, blocking=True))


def keep(saver: Saver, state: dict[str, Any], step: int, blocking: bool = False) -> None:
    saver.save(state, Request(step, {}, blocking=blocking))
    synchronise()


def overhead(saver: Saver, state: dict[str, Any], step: int) -> dict[str, Any]:
    """Steps of one kind, with an all-reduce each, alone and while a save is written."""
    train = trainer(state)
    alone = [slowest(train) for _ in range(STEPS)]
    saver.save(state, Request(step, {}))
    beside = []
    writing = True
    while writing:
        beside.append(slowest(train))
        busy = torch.tensor([int(saver.busy)])
        dist.all_reduce(busy, op=dist.ReduceOp.MAX)
        writing = bool(busy)
    saver.wait()
    alone_s, beside_s = mean(alone[STEPS // 6 :]), mean(beside)
    return {
        "measure": "overhead", "step_s": round(alone_s, 4), "beside_save_s": round(beside_s, 4),
        "steps_beside": len(beside), "step_ratio": round(beside_s / alone_s, 4),
    }  # fmt: skip


def trainer(state: dict[str, Any]) -> Callable[[], None]:
    device = state["layer0"].device
    matrix = torch.rand(768, 768, device=device)

    def train() -> None:
        product = matrix
        for _ in range(4):
            product = product @ matrix / 768
        synchronise()
        dist.all_reduce(product.sum().cpu())

    return train


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)


def loaded(state: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Into the tensors of these ranks, whatever number saved it."""
    [place] = (folder / "ours").glob("step-*")
    source = loading.Source([place], print, go_back=False)

    def act() -> None:
        loading.load(source, state)

    return [{"measure": "load", "seconds": round(slowest(act), 4)}]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
