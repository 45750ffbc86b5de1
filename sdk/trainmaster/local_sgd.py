"""Local SGD and DiLoCo: workers train alone for many steps, and then agree on the mean of how far they came.

With an outer rate of 1 and no momentum this is local SGD (Stich 2019, arXiv 1805.09767); with Nesterov momentum it is
DiLoCo (Douillard et al. 2023, arXiv 2311.08105).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist


class LocalTraining:
    """Call `step` after each step of the worker's own optimizer, on every rank of the process group."""

    def __init__(
        self,
        model: torch.nn.Module,
        every: int,
        *,
        outer_rate: float = 1.0,
        momentum: float = 0.0,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._shared = [parameter.detach().clone() for parameter in self._parameters]
        self._every, self._group, self._steps = every, group, 0
        self._outer = torch.optim.SGD(self._shared, lr=outer_rate, momentum=momentum, nesterov=momentum > 0)
        self.bytes_reduced = 0

    def step(self) -> bool:
        """True when the workers have agreed."""
        self._steps += 1
        if self._steps % self._every:
            return False
        with torch.no_grad():
            for shared, parameter in zip(self._shared, self._parameters, strict=True):
                shared.grad = shared - parameter
                dist.all_reduce(shared.grad, group=self._group)
                shared.grad /= dist.get_world_size(self._group)
                self.bytes_reduced += shared.grad.nbytes
            self._outer.step()
            for shared, parameter in zip(self._shared, self._parameters, strict=True):
                parameter.copy_(shared)
        return True

    def state_dict(self) -> dict[str, Any]:
        return {"shared": self._shared, "outer": self._outer.state_dict(), "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._steps = int(state["steps"])
        self._outer.load_state_dict(state["outer"])
        for shared, saved in zip(self._shared, state["shared"], strict=True):
            shared.copy_(saved)
