"""What the caller of `log()` gave, divided into numbers, rich values, and what is refused with one warning a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmaster import artifacts
from trainmaster.values import MOST_IN_A_STEP, Encoded, RichValue, ValueRefused


class LoggedValues:
    """Of one run. Rich values go to `tell` as they come, their files into `home`; nothing raises for a value."""

    def __init__(
        self, home: Path | None, began_at_ms: int, tell: Callable[..., None], warn: Callable[[str], None]
    ) -> None:
        self._home, self._began_at_ms = home, began_at_ms
        self._tell, self._warn = tell, warn
        self._files = 0
        self._warned: set[str] = set()

    def numbers(self, step: int, values: Mapping[str, Any]) -> dict[str, float]:
        """Returns the numbers among the values; the rich ones are told."""
        numbers: dict[str, float] = {}
        for name, value in values.items():
            if type(value) is float or type(value) is int:  # nearly all, and this is the path that costs
                numbers[name] = value
            elif isinstance(value, RichValue) or (isinstance(value, list | tuple) and _are_rich(value)):
                self.tell_rich(step, name, [value] if isinstance(value, RichValue) else value)
            elif (number := self._number(name, value)) is not None:
                numbers[name] = number
        return numbers

    def only_numbers(self, values: Mapping[str, Any]) -> dict[str, float]:
        """As `numbers`, where nothing but numbers is expected: a rich value is refused too."""
        return {
            name: number
            for name, value in values.items()
            if (number := self._number(name, value)) is not None
        }

    def tell_rich(self, step: int, name: str, values: Sequence[RichValue]) -> None:
        if len(values) > MOST_IN_A_STEP:
            self.warn_once(
                name, f"{name} has {len(values)} values at step {step}; {MOST_IN_A_STEP} are logged"
            )
        for index, value in enumerate(values[:MOST_IN_A_STEP]):
            try:
                encoded = value.encode()
                content = self._content(encoded)
            except (ValueRefused, OSError) as error:
                self.warn_once(name, f"{name} is not logged: {error}")
                continue
            except Exception as error:  # of the caller's array or image; training goes on
                self.warn_once(name, f"{name} is not logged: {type(error).__name__}: {error}")
                continue
            content |= {"caption": encoded.caption} if encoded.caption else {}
            self._tell("value", key=name, step=step, index=index, type=encoded.kind, **content)

    def _content(self, encoded: Encoded) -> dict[str, Any]:
        """What is small stands in the line, a file lies in the run's folder."""
        if encoded.document is not None:
            return {"document": encoded.document}
        if self._home is None:
            raise ValueRefused("this rank keeps nothing")
        self._files += 1
        name = f"{self._began_at_ms}-{self._files:06d}{encoded.suffix}"
        return {"path": artifacts.keep_bytes(encoded.data, f"values/{name}", self._home)}

    def _number(self, name: str, value: Any) -> float | None:
        """Tensors and numpy scalars too. What is no number costs a warning, not the training."""
        if isinstance(value, int):
            return int(value)
        detach = getattr(value, "detach", None)
        try:
            return float(detach() if callable(detach) else value)
        except (TypeError, ValueError, RuntimeError):
            self.warn_once(name, f"{name} is {type(value).__name__}, not one number; it is not logged")
            return None

    def warn_once(self, name: str, sentence: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            self._warn(sentence)


def _are_rich(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, RichValue) for value in values)
