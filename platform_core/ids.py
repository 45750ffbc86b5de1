"""Text ids: `<prefix>-<16 characters>`. The shell supplies the random bytes; nothing here makes chance."""

from __future__ import annotations

# Crockford's base 32: no i, l, o, u, so an id read aloud or copied by hand stays what it was.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
RAW_BYTES = 10
LENGTH = RAW_BYTES * 8 // 5

JOB = "job"
ATTEMPT = "att"
NODE = "node"
CHECKPOINT = "ckpt"
DEPLOYMENT = "dep"
MODEL_VERSION = "mv"
MANIFEST = "man"
UPLOAD = "up"


def encode(prefix: str, raw: bytes) -> str:
    """The id of these ten bytes. Ids sort like their bytes."""
    if len(raw) != RAW_BYTES:
        raise ValueError(f"an id is made of {RAW_BYTES} bytes, not {len(raw)}")
    number = int.from_bytes(raw, "big")
    digits = (ALPHABET[(number >> shift) & 31] for shift in range((LENGTH - 1) * 5, -1, -5))
    return f"{prefix}-{''.join(digits)}"
