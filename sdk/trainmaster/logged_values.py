"""What the caller of `log()` gave, divided into numbers, rich values, and what is refused with one warning a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.experiments.fields import is_kept_as_it_is, key
from trainmaster import artifacts, plain_values
from trainmaster.plain_values import LARGEST
from trainmaster.values import MOST_IN_A_STEP, Encoded, RichValue, ValueRefused

MOST_REMEMBERED = 10_000  # names and sentences
MOST_TOLD = 20  # entries in one warning


class LoggedValues:
    """Of one run. Rich values go to `tell` as they come, their files into `home`; nothing raises for a value."""

    def __init__(
        self, home: Path | None, began_at_ms: int, tell: Callable[..., None], warn: Callable[[str], None]
    ) -> None:
        self._home, self._began_at_ms = home, began_at_ms
        self._tell, self._warn = tell, warn
        self._files = 0
        self._warned: set[str] = set()
        self._good_names: set[str] = set()

    def numbers(self, step: int, values: Mapping[Any, Any]) -> dict[str, float]:
        """Returns the numbers among the values; the rich ones are told."""
        numbers: dict[str, float] = {}
        others: dict[Any, Any] = {}
        for name, value in values.items():
            # Nearly all, and this is the path that costs.
            if (type(value) is float or (type(value) is int and -LARGEST < value < LARGEST)) and (
                name in self._good_names or self._is_good(name)
            ):
                numbers[name] = value
            elif isinstance(value, RichValue) or (isinstance(value, list | tuple) and _are_rich(value)):
                self._tell_named(step, name, [value] if isinstance(value, RichValue) else value)
            else:
                others[name] = value
        return self._with_others(numbers, others) if others else numbers

    def joined(self, values: Mapping[Any, Any], more: Mapping[str, Any]) -> dict[Any, Any]:
        """What was given as a mapping and by name. A mapping that cannot be read costs the rest nothing."""
        try:
            return {**values, **more}
        except Exception as error:
            self.tell_left_out(
                [f"values is {type(values).__name__}, whose entries raise {type(error).__name__}"]
            )
            return dict(more)

    def _is_good(self, name: Any) -> bool:
        good = is_kept_as_it_is(name)
        if good and len(self._good_names) < MOST_REMEMBERED:
            self._good_names.add(name)
        return good

    def _with_others(self, numbers: dict[str, float], others: Mapping[Any, Any]) -> dict[str, float]:
        """In the order of the names that need no change first: those are never replaced."""
        found, problems = plain_values.numbers({**numbers, **others})
        self.tell_left_out(problems)
        return found

    def only_numbers(self, values: Mapping[str, Any]) -> dict[str, float]:
        """As `numbers`, where nothing but numbers is expected: a rich value is refused too."""
        return self._with_others({}, values)

    def _tell_named(self, step: int, name: Any, values: Sequence[RichValue]) -> None:
        try:
            self.tell_rich(step, key(name if isinstance(name, str) else str(name), "value"), values)
        except Exception as error:
            self.tell_left_out([str(error) if isinstance(error, TrainmasterError) else "a value has no name"])

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

    def tell_left_out(self, problems: Sequence[str]) -> None:
        """One warning for all that are new."""
        new = [problem for problem in dict.fromkeys(problems) if problem not in self._warned]
        if new:
            self._warned.update(new[: MOST_REMEMBERED - len(self._warned)])
            more = f"; and {len(new) - MOST_TOLD:,} more" if len(new) > MOST_TOLD else ""
            self._warn("; ".join(new[:MOST_TOLD]) + more)

    def warn_once(self, name: str, sentence: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            self._warn(sentence)


def _are_rich(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, RichValue) for value in values)
