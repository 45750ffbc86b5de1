"""Random texts that stand for a person or a machine: made here, shown once, kept only as a digest."""

import hashlib
import secrets

TOKEN_PREFIX = "tm_"  # noqa: S105  so that a leaked one is recognised by people and by secret scanners


def new_text(prefix: str = TOKEN_PREFIX) -> str:
    return prefix + secrets.token_urlsafe(32)


def digest(text: str) -> str:
    """Plain SHA-256 is enough: the text is 256 random bits, there is nothing to guess."""
    return hashlib.sha256(text.encode()).hexdigest()
