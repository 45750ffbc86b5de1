"""How this process keeps the memory that pieces pass through."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # names of mallopt(3)
_LARGEST_KEPT = 32 << 20
_MOST_KEPT = 256 << 20
_GROWTH = 4 << 20


def keep_freed_blocks() -> None:
    """Freed buffers of pieces are used again, not given back to the kernel. To be called before there are threads.

    glibc maps large blocks afresh each time, and every fresh page costs a fault: half of what receiving costs. Other
    C libraries do not have the call, and are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
    mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
    mallopt(_TOP_PAD, _GROWTH)
    mallopt(_ARENA_MAX, 1)  # every thread would keep blocks of its own
