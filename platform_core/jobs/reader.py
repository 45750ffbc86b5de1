"""Reading a loose mapping (JSON, YAML, a form) field by field, collecting every problem on the way."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeGuard

from platform_core.errors import TrainmasterError

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?", re.ASCII)
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Problem:
    """`field` is the name as the user wrote it, with a dot for nested ones: `checkpoint.keep_last`."""

    field: str
    sentence: str


class SpecError(TrainmasterError):
    def __init__(self, problems: tuple[Problem, ...]) -> None:
        told = "; ".join(problem.sentence for problem in problems)
        super().__init__("spec_invalid", count=len(problems), problems=told)
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Text:
    """What one line of text must be like. `required` is the remedy for a missing one, else ''."""

    longest: int
    required: str = ""
    pattern: str = ""
    words: str = ""  # what `pattern` wants, in words


def shown(value: object) -> str:
    """The value as it may stand in a sentence: short, whatever was sent."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Reader:
    """One mapping being read. A bad field yields its fallback, so that reading goes on."""

    def __init__(self, mapping: Mapping[str, object], problems: list[Problem], prefix: str = "") -> None:
        self._mapping = mapping
        self._problems = problems
        self._prefix = prefix
        self._read: set[str] = set()

    def refuse(self, field: str, sentence: str) -> None:
        self._problems.append(Problem(f"{self._prefix}{field}", sentence))

    def say(self, field: str, told: str) -> None:
        """Refuse with a sentence that begins with the field's name."""
        self.refuse(field, f"{self._prefix}{field} {told}")

    def sound(self, *fields: str) -> bool:
        """No problem so far with any of these: a rule over several fields need not repeat one."""
        return {problem.field for problem in self._problems}.isdisjoint(
            f"{self._prefix}{name}" for name in fields
        )

    def value(self, field: str) -> object | None:
        """What was sent, None when nothing was. JSON's null and a form's empty box both mean nothing."""
        self._read.add(field)
        found = self._mapping.get(field)
        return None if found == "" else found

    def text(self, field: str, shape: Text) -> str:
        found = self.value(field)
        if found is None:
            if shape.required:
                self.say(field, f"is missing; {shape.required}")
            return ""
        if not isinstance(found, str):
            self.say(field, f"is {shown(found)}; it must be text")
        elif len(found) > shape.longest:
            self.say(field, f"has {len(found)} characters; the limit is {shape.longest}")
        elif not found.isprintable() or not found.strip():
            self.say(field, f"is {shown(found)}; it must be one line of readable text")
        elif shape.pattern and not re.fullmatch(shape.pattern, found, re.ASCII):
            self.say(field, f"is {shown(found)}; it must be {shape.words}")
        else:
            return found
        return ""

    def whole(self, field: str, default: int, low: int, high: int) -> int:
        found = self.value(field)
        if found is None:
            return default
        number: int | None = None
        if _is_number(found):
            number = int(found) if found == int(found) else None
        elif isinstance(found, str) and _WHOLE.fullmatch(found.strip()):
            number = int(found.strip())
        if number is None or not low <= number <= high:
            must = f"it must be a whole number from {low} to {high}"
            self.say(field, f"is {shown(found)}; {must}")
            return default
        return number

    def scaled(self, field: str, default: int, scale: int, high: int, *, positive: bool) -> int:
        """A number such as 1.5 in the user's unit, as a whole number of units `scale` times smaller."""
        found = self.value(field)
        if found is None:
            return default
        number: Fraction | None = None
        if _is_number(found):
            number = Fraction(found)
        elif isinstance(found, str) and _DECIMAL.fullmatch(found.strip()):
            number = Fraction(found.strip())
        if number is None or not int(positive) <= round(number * scale) <= high * scale:
            must = f"more than 0 and at most {high}" if positive else f"a number from 0 to {high}"
            self.say(field, f"is {shown(found)}; it must be {must}")
            return default
        return round(number * scale)

    def truth(self, field: str, default: bool) -> bool:
        found = self.value(field)
        if isinstance(found, str):
            found = _TRUTH.get(found.lower(), found)
        if found is None or isinstance(found, bool):
            return default if found is None else found
        self.say(field, f"is {shown(found)}; it must be true or false")
        return default

    def words(self, field: str) -> tuple[str, ...]:
        """A list of texts, without repeats, in the order given."""
        found = self.value(field)
        if found is None:
            return ()
        if not isinstance(found, list | tuple) or not all(isinstance(word, str) for word in found):
            self.say(field, f"is {shown(found)}; it must be a list of texts")
            return ()
        return tuple(dict.fromkeys(found))

    def pairs(self, field: str) -> tuple[tuple[str, object], ...]:
        """A mapping's items in order of their names: what a database gives back may be ordered otherwise."""
        found = self.value(field)
        if found is None:
            return ()
        if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
            self.say(field, f"is {shown(found)}; it must be a mapping of names to values")
            return ()
        return tuple(sorted(found.items()))

    def nested(self, field: str) -> Reader:
        return Reader(dict(self.pairs(field)), self._problems, f"{self._prefix}{field}.")

    def refuse_the_rest(self) -> None:
        """A field that nobody read is most often a misspelt one: refuse it by name."""
        names = sorted(self._read)
        for field in self._mapping:
            if field in names:
                continue
            near = difflib.get_close_matches(str(field), names, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(names)}"
            self.say(str(field), f"is not a field; {remedy}")
