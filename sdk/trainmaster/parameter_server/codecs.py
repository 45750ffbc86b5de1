"""Gradients made smaller before they are pushed: half precision, eight bits, or the largest values alone.

What top-k leaves out is kept and added to the next gradient (error feedback: Stich et al. 2018, arXiv 1809.07599), so
that it arrives late instead of never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch

Parts = dict[str, torch.Tensor]


class Codec(Protocol):
    """Has the state of one worker. `ratio`: bytes sent of each byte of the gradient."""

    name: str

    @property
    def ratio(self) -> float: ...

    def encode(self, key: str, gradient: torch.Tensor) -> Parts: ...


@dataclass
class Plain:
    name: str = "plain"
    ratio: float = 1.0

    def encode(self, key: str, gradient: torch.Tensor) -> Parts:
        return {"values": gradient}


@dataclass
class Half:
    name: str = "fp16"
    ratio: float = 0.5

    def encode(self, key: str, gradient: torch.Tensor) -> Parts:
        return {"values": gradient.clamp(-65504, 65504).half()}


@dataclass
class EightBits:
    """Symmetric, one scale a tensor; what rounding takes is fed back, too."""

    name: str = "int8"
    ratio: float = 0.25
    errors: Parts = field(default_factory=dict)

    def encode(self, key: str, gradient: torch.Tensor) -> Parts:
        whole = gradient + self.errors.get(key, 0.0)
        scale = whole.abs().max().clamp(min=1e-30) / 127
        values = (whole / scale).round().to(torch.int8)
        self.errors[key] = whole - values * scale
        return {"values": values, "scale": scale.reshape(1)}


@dataclass
class TopK:
    """The largest values and their places."""

    name: str = "top-k"
    share: float = 0.01
    errors: Parts = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return 2 * self.share  # a place of four bytes beside each value

    def encode(self, key: str, gradient: torch.Tensor) -> Parts:
        whole = (gradient + self.errors.get(key, 0.0)).flatten()
        places = whole.abs().topk(max(1, int(self.share * whole.numel()))).indices
        values = whole[places]
        rest = whole.clone()
        rest[places] = 0
        self.errors[key] = rest.view_as(gradient)
        return {"values": values, "places": places.int()}


def decode(parts: Mapping[str, torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """The gradient of a parameter, from the parts that any of the codecs has made of it."""
    values = parts["values"].to(like.dtype)
    if "scale" in parts:
        values = values * parts["scale"]
    if "places" in parts:
        return (
            torch.zeros(like.numel(), dtype=like.dtype)
            .index_put_((parts["places"].long(),), values)
            .view_as(like)
        )
    return values.view_as(like)


CODECS: Mapping[str, Callable[[], Codec]] = {"plain": Plain, "fp16": Half, "int8": EightBits, "top-k": TopK}
