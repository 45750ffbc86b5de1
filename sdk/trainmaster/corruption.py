"""Silent corruption: all ranks compute one micro-batch, and a rank that differs is named to the platform."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

from platform_core.recovery import alarms
from platform_core.recovery.corruption import Verdict, Vote, judge
from trainmaster.checkpoints import collective, random_state
from trainmaster.environment import JobEnvironment
from trainmaster.guidance import Guidance
from trainmaster.orders import LOOK_SECONDS

Compute = Callable[[Any], Any]
PARTS = 8  # of each tensor, whose sums are compared by tolerance
STOP_SECONDS = 30.0  # in which the platform stops a run that it was told of


class CorruptionFound(Exception):
    """A rank computes something else than the others. Raised on all ranks: the weights may be wrong by now."""


class CorruptionCheck:
    """Of one rank. `check` is a collective."""

    def __init__(
        self,
        environment: JobEnvironment,
        guidance: Guidance,
        tell: Callable[..., None],
        warn: Callable[[str], None],
    ) -> None:
        self._every, self._tolerance_ppm = environment.check_steps, environment.tolerance_ppm
        self._platform = environment.folder is not None
        self._guidance, self._tell, self._warn = guidance, tell, warn
        self._usual: dict[str, alarms.Usual] = {}
        self._alarmed: set[str] = set()
        self._done = 0
        self._warned = False

    def observe(self, step: int, values: Mapping[str, float]) -> None:
        """Losses and gradient norms as they are logged. The first value that is out of bounds is told, and asks for a
        check at once where ranks are compared."""
        for name in alarms.WATCHED:
            if name not in values:
                continue
            self._usual[name], alarm = alarms.observe(self._usual.get(name, alarms.Usual()), values[name])
            if alarm is None:
                self._alarmed.discard(name)
            elif name not in self._alarmed:
                self._alarmed.add(name)
                if not self._platform:
                    self._warn(alarm.sentence(name, step))
                    continue
                value = alarm.value if isfinite(alarm.value) else None
                self._tell(
                    "training_alarm", step=step, name=name, alarm=alarm.kind, value=value, limit=alarm.limit
                )
                if self._every:
                    self._guidance.ask_for_check()

    def check(self, step: int, compute: Compute, batch: Any, every: int) -> None:
        steps = self._every or every
        due = bool(steps) and step > 0 and step % steps == 0
        asked = bool(steps) and self._guidance.check_asked()
        if not (due or asked):
            return
        if not collective.active():
            self._warn_once("check_corruption compares ranks, and there is one alone; nothing is checked")
            return
        owner = self._done % collective.world_size()
        self._done += 1
        shared = collective.from_first(_to_cpu(batch) if collective.rank() == owner else None, owner)
        votes = self._votes(step, compute, shared)
        verdict = judge(votes, self._tolerance_ppm)
        if not verdict.agreed:
            votes += self._votes(step, compute, shared)
            verdict = judge(votes, self._tolerance_ppm)
        if verdict.unsteady:
            self._warn_once(
                f"check_corruption at step {step}: most ranks find something else each time, so the function is not "
                "deterministic and nothing can be compared; set tolerance_ppm, or take the randomness out of it"
            )
        elif verdict.agreed:
            self._tell_first("corruption_agreed", step=step)
        else:
            self._found(step, verdict)

    def _votes(self, step: int, compute: Compute, batch: Any) -> list[Vote]:
        digest, trouble = "", ""
        sums: tuple[float, ...] = ()
        try:
            digest, sums = self._computed(step, compute, batch)
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
        found = collective.to_all((digest, sums, trouble))
        for rank, (_, _, sentence) in enumerate(found):
            if sentence:
                raise RuntimeError(f"check_corruption could not compute on rank {rank}: {sentence}")
        return [Vote(rank, digest, sums) for rank, (digest, sums, _) in enumerate(found)]

    def _computed(self, step: int, compute: Compute, batch: Any) -> tuple[str, tuple[float, ...]]:
        """With the same random numbers on all ranks, and those of the training left as they were."""
        torch: Any = sys.modules["torch"]
        states = random_state.capture()
        strict, warns = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        try:
            random_state.seed(step)
            if not self._tolerance_ppm:
                torch.use_deterministic_algorithms(True, warn_only=True)
            return fingerprint(compute(batch), with_sums=bool(self._tolerance_ppm))
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warns)
            random_state.restore(states)

    def _found(self, step: int, verdict: Verdict) -> None:
        self._tell_first(
            "corruption_found", step=step, guilty=list(verdict.guilty), suspects=list(verdict.suspects)
        )
        if self._platform:
            self._wait_for_the_stop()
        who = _ranks(verdict.guilty) if verdict.guilty else f"one of {_ranks(verdict.suspects)}"
        raise CorruptionFound(
            f"at step {step} {who} computed something else than the others from the same batch"
        )

    def _wait_for_the_stop(self) -> None:
        """So that the platform knows why before it sees the ranks fail."""
        until = time.monotonic() + STOP_SECONDS
        while time.monotonic() < until and not self._guidance.stop_ordered():
            time.sleep(LOOK_SECONDS)

    def _tell_first(self, kind: str, **facts: object) -> None:
        if collective.rank() == 0:
            self._tell(kind, **facts)

    def _warn_once(self, sentence: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(sentence)


def fingerprint(result: Any, *, with_sums: bool = False) -> tuple[str, tuple[float, ...]]:
    """A SHA-256 over all tensors and numbers of the result, and the positive and negative sums of parts of them."""
    digest = hashlib.sha256()
    sums: list[float] = []
    for tensor in _tensors(result):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(_bytes(flat))
        if with_sums:
            for part in flat.double().tensor_split(min(PARTS, max(1, flat.numel()))):
                sums += [float(part.clamp(min=0).sum()), float(part.clamp(max=0).sum())]
    return digest.hexdigest(), tuple(sums)


def _bytes(flat: Any) -> memoryview:
    import torch

    return memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else memoryview(b"")


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for name in sorted(value, key=str):
            yield from _tensors(value[name])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif value is not None:
        yield torch.as_tensor(value)


def _to_cpu(value: Any) -> Any:
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        return value.detach().cpu()
    if isinstance(value, Mapping):
        return {name: _to_cpu(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_to_cpu(item) for item in value)
    return value


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(map(str, ranks))}"
