"""Random credentials of people and machines: shown once, kept only as a digest."""

import hashlib
import secrets

TOKEN_PREFIX = "tm_"  # noqa: S105  so that a leaked one is recognised by people and by secret scanners


def new_text(prefix: str = TOKEN_PREFIX) -> str:
    return prefix + secrets.token_urlsafe(32)


def digest(text: str) -> str:
    """Plain SHA-256 is enough for 256 random bits."""
    return hashlib.sha256(text.encode()).hexdigest()
