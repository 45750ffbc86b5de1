"""A permutation of any number of samples as a function: nothing is stored, and every place is found at once.

A Feistel network of six rounds permutes the next larger power of four; a value that falls outside is sent through
again until it falls inside (cycle walking; Black and Rogaway 2002, "Ciphers with arbitrary finite domains").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 6
_LEAST_HALF_BITS = 3  # a network over fewer values mixes badly
MOST_SAMPLES = 1 << 60
_MASK = (1 << 64) - 1


def permute(places: NDArray[np.int64], samples: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The sample at each place of this epoch. The places are below `samples`."""
    if samples <= 1:
        return places.copy()
    half = np.uint64(max(_LEAST_HALF_BITS, ((samples - 1).bit_length() + 1) // 2))
    keys = [np.uint64(key) for key in _keys(seed, epoch)]
    values = _encrypt(places.astype(np.uint64), half, keys)
    outside = np.flatnonzero(values >= samples)
    while len(outside):
        values[outside] = _encrypt(values[outside], half, keys)
        outside = outside[values[outside] >= samples]
    return values.astype(np.int64)


def _encrypt(values: NDArray[np.uint64], half: np.uint64, keys: list[np.uint64]) -> NDArray[np.uint64]:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = values >> half, values & mask
    for key in keys:
        left, right = right, left ^ (_mix(right ^ key) & mask)
    return (left << half) | right


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014), which wraps around on purpose."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _keys(seed: int, epoch: int) -> list[int]:
    state = _mix_whole((seed & _MASK) ^ _mix_whole(epoch & _MASK))
    return [_mix_whole((state + 0x9E3779B97F4A7C15 * number) & _MASK) for number in range(1, _ROUNDS + 1)]


def _mix_whole(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
