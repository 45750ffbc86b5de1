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
SWEEP = "sweep"
RECALL = "recall"
CYCLE = "cycle"

# Manifests are named by their content (see distribution.manifest), everything else by `encode`.
PREFIXES = frozenset(
    {JOB, ATTEMPT, NODE, CHECKPOINT, DEPLOYMENT, MODEL_VERSION, MANIFEST, UPLOAD, SWEEP, RECALL, CYCLE}
)


def encode(prefix: str, raw: bytes) -> str:
    """The id of these ten bytes. Ids sort like their bytes."""
    if len(raw) != RAW_BYTES:
        raise ValueError(f"an id is made of {RAW_BYTES} bytes, not {len(raw)}")
    number = int.from_bytes(raw, "big")
    digits = (ALPHABET[(number >> shift) & 31] for shift in range((LENGTH - 1) * 5, -1, -5))
    return f"{prefix}-{''.join(digits)}"


def decode(text: str) -> tuple[str, bytes]:
    """The prefix and the ten bytes; ValueError when the text is not such an id."""
    prefix, dash, digits = text.rpartition("-")
    if not dash or not prefix or len(digits) != LENGTH or any(digit not in ALPHABET for digit in digits):
        raise ValueError(f"{text!r} is not an id: expected <prefix>-<{LENGTH} characters of {ALPHABET}>")
    number = 0
    for digit in digits:
        number = number << 5 | ALPHABET.index(digit)
    return prefix, number.to_bytes(RAW_BYTES, "big")


def is_id(text: str, prefix: str) -> bool:
    """Whether the text is an id of this kind; for manifests, `man-` and 32 hexadecimal digits."""
    if prefix == MANIFEST:
        digits = text.removeprefix("man-")
        return text.startswith("man-") and len(digits) == 32 and all(d in "0123456789abcdef" for d in digits)
    try:
        prefix_found, _ = decode(text)
    except ValueError:
        return False
    return prefix_found == prefix
