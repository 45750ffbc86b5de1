"""Word from the cloud that this machine is about to be taken away."""

from __future__ import annotations

import urllib.request

NOTHING = frozenset({"", "FALSE", "NONE"})  # what is answered while there is no notice, besides 404
TIMEOUT_SECONDS = 2


def is_given(url: str) -> bool:
    """`url`: an address of the machine's metadata service, or file:///… that a script of the operator writes."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - the operator's own address
            text = answer.read(1_000).decode(errors="replace").strip()
    except (OSError, ValueError):
        return False
    return text.upper() not in NOTHING
