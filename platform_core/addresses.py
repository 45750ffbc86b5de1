"""How long the address of a request may be, on every door."""

from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes

LONGEST_PATH = 8 * 1024
LONGEST_QUERY = 32 * 1024


def check_address(path: str, query: str) -> None:
    """Raises address_too_long."""
    for what, text, limit in (("path", path, LONGEST_PATH), ("query", query, LONGEST_QUERY)):
        if len(text) > limit:
            numbers = {"what": what, "size": format_bytes(len(text)), "limit": format_bytes(limit)}
            raise TrainmasterError("address_too_long", **numbers)
