"""Values out of queries and forms, as every door reads them."""

import re

from platform_core.errors import TrainmasterError

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)


def whole_number(text: str, name: str, most: int = 10**18, least: int = 0) -> int:
    """A number in a query or a form, in the digits 0 to 9. Raises request_invalid."""
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        bounds = f" from {least:,} to {most:,}" if most < 10**18 else ""
        raise TrainmasterError(
            "request_invalid", what=name, why=f"{text[:40]!r} is not a whole number{bounds}"
        )
    return int(text)
