"""The FLOPs of one step, counted by the formulas of torch's own counter, which changes no operation that runs.

Counted is what this rank computes of the model: of a DTensor its own shard, and not what an activation checkpoint
computes a second time.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from platform_core.efficiency.mfu import Missing
from platform_core.efficiency.peaks import Precision


@dataclass(frozen=True, slots=True)
class Flops:
    total: float = 0.0
    precision: Precision | None = None  # of most of them
    missing: Missing | None = None  # why nothing was counted

    def per(self, steps: int) -> Flops:
        return Flops(self.total / steps, self.precision)


class FlopCount:
    """Between `begin` and `end`, in one thread and the backward passes that it starts.

    The script may compile or export a model meanwhile, or never come to `end`: it must not notice the count.
    """

    def __init__(self, mode: Any) -> None:
        self._mode, self._thread = mode, threading.get_ident()

    @classmethod
    def begin(cls) -> Self | None:
        """None where the count would be wrong or cost much: compiled code does not pass its operations by."""
        if is_compiled() or threading.current_thread() is not threading.main_thread():
            return None
        mode = _mode()()
        mode.__enter__()
        return cls(mode)

    @property
    def is_here(self) -> bool:
        """A count ends in the thread that began it."""
        return threading.get_ident() == self._thread

    def end(self) -> Flops:
        self._mode.__exit__(None, None, None)
        by_type: Counter[str] = self._mode.by_type
        if is_compiled():
            return Flops(missing=Missing.COMPILED)
        if not self._mode.is_complete:
            return Flops(missing=Missing.OPERATOR)
        if not by_type:
            return Flops()
        return Flops(float(by_type.total()), _precision(by_type.most_common(1)[0][0]))


def is_compiled() -> bool:
    """Whether something was compiled, whose operations nobody sees."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return False
    # The first counts no function that had to be compiled as a whole.
    return bool(dynamo.counters["frames"].get("ok") or dynamo.counters["stats"].get("unique_graphs"))


def _recomputes() -> bool:
    """Whether an activation checkpoint computes a forward pass again, within a backward pass."""
    import torch

    if torch._C._current_graph_task_id() == -1 or not torch.is_grad_enabled():
        return False
    checkpoints = sys.modules.get("torch.utils.checkpoint")
    frame: Any = sys._getframe(1)
    while frame is not None and checkpoints is not None:
        if frame.f_code.co_filename == checkpoints.__file__:
            return True
        frame = frame.f_back
    return False


def _has_shards(types: Any) -> bool:
    tensors = sys.modules.get("torch.distributed.tensor")
    return tensors is not None and any(issubclass(kind, tensors.DTensor) for kind in types)


def _precision(dtype: str) -> Precision | None:
    import torch

    if "float8" in dtype:
        return Precision.FP8
    if dtype in ("torch.bfloat16", "torch.float16"):
        return Precision.HALF
    if dtype != "torch.float32":
        return None
    return Precision.TF32 if torch.backends.cuda.matmul.allow_tf32 else Precision.FP32


@cache
def _mode() -> Any:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    # Products of matrices for which torch has no formula.
    unknown = {"_grouped_mm", "_scaled_grouped_mm", "_int_mm", "_scaled_mm_v2", "_scaled_grouped_mm_v2"}

    class Counting(TorchDispatchMode):  # type: ignore[misc, no-untyped-call, unused-ignore]
        supports_higher_order_operators = True  # else torch refuses to run them

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
            self.by_type: Counter[str] = Counter()
            self.is_complete = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Else torch.compile would leave its functions uncompiled, or fail, as long as the count lasts."""
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if _has_shards(types):
                return NotImplemented  # it comes again as operations of its shard
            if not isinstance(func, torch._ops.OpOverload):
                self.is_complete = False  # what a higher-order operator computes is not seen here
                return func(*args, **kwargs)
            out = func(*args, **kwargs)
            formula = flop_registry.get(func._overloadpacket)
            if formula is None:
                self.is_complete &= func._overloadpacket.__name__ not in unknown
            elif not _recomputes():
                first = next((each for each in args if isinstance(each, torch.Tensor)), None)
                # A traced operation computes nothing, and a formula would fix the sizes that are to stay variable.
                if not torch.compiler.is_compiling() and not isinstance(first, FakeTensor):
                    dtype = str(first.dtype) if first is not None else ""
                    self.by_type[dtype] += int(formula(*args, **kwargs, out_val=out))
            return out

    return Counting
