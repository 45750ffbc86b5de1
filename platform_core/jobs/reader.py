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
    """`field` is the name in a job file, with a dot for nested ones: `checkpoint.keep_last`."""

    field: str
    sentence: str


class SpecError(TrainmasterError):
    """A description of a job, or of a sweep, with all its problems."""

    def __init__(self, problems: tuple[Problem, ...], code: str = "spec_invalid") -> None:
        sentences = "; ".join(problem.sentence for problem in problems)
        super().__init__(code, problems=sentences)
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
    """Reads one mapping. A bad field yields its default, so that reading goes on.

    `labels` are what sentences call the fields, by their names: those of the form, say. Others keep their names.
    """

    def __init__(
        self,
        mapping: Mapping[str, object],
        problems: list[Problem],
        labels: Mapping[str, str] | None = None,
        prefix: str = "",
    ) -> None:
        self._mapping = mapping
        self._problems = problems
        self._labels = labels or {}
        self._prefix = prefix
        self._read: set[str] = set()

    def refuse(self, field: str, sentence: str) -> None:
        self._problems.append(Problem(f"{self._prefix}{field}", sentence))

    def say(self, field: str, predicate: str) -> None:
        """Refuse with a sentence whose subject is the field."""
        self.refuse(field, f"{self.label(field)} {predicate}")

    def label(self, field: str) -> str:
        """What a sentence calls the field; `hyperparameters.lr` is one inside a labelled field."""
        name = f"{self._prefix}{field}"
        parent, _, inside = name.partition(".")
        if name not in self._labels and inside and parent in self._labels:
            return f"{inside} in {self._labels[parent]}"
        return self._labels.get(name, name)

    def sound(self, *fields: str) -> bool:
        """No problem so far with any of these: a rule over several fields need not repeat one."""
        return {problem.field for problem in self._problems}.isdisjoint(
            f"{self._prefix}{name}" for name in fields
        )

    def value(self, field: str) -> object | None:
        """What was sent, None when nothing was. JSON's null and a form's empty box both mean nothing."""
        self._read.add(field)
        value = self._mapping.get(field)
        return None if value == "" else value

    def text(self, field: str, shape: Text) -> str:
        value = self.value(field)
        if value is None:
            if shape.required:
                self.say(field, f"is missing; {shape.required}")
            return ""
        if not isinstance(value, str):
            self.say(field, f"is {shown(value)}; it must be text")
        elif len(value) > shape.longest:
            self.say(field, f"has {len(value)} characters; the limit is {shape.longest}")
        elif not value.isprintable() or not value.strip():
            self.say(field, f"is {shown(value)}; it must be one line of readable text")
        elif shape.pattern and not re.fullmatch(shape.pattern, value, re.ASCII):
            self.say(field, f"is {shown(value)}; it must be {shape.words}")
        else:
            return value
        return ""

    def whole(self, field: str, default: int, low: int, high: int) -> int:
        value = self.value(field)
        if value is None:
            return default
        number: int | None = None
        if _is_number(value):
            number = int(value) if value == int(value) else None
        elif isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            number = int(value.strip())
        if number is None or not low <= number <= high:
            must = f"it must be a whole number from {low} to {high}"
            self.say(field, f"is {shown(value)}; {must}")
            return default
        return number

    def scaled(self, field: str, default: int, scale: int, high: int, *, positive: bool) -> int:
        """A number such as 1.5 in the user's unit, as a whole number of units `scale` times smaller."""
        value = self.value(field)
        if value is None:
            return default
        number: Fraction | None = None
        if _is_number(value):
            number = Fraction(value)
        elif isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
            number = Fraction(value.strip())
        if number is None or not int(positive) <= round(number * scale) <= high * scale:
            must = f"more than 0 and at most {high}" if positive else f"a number from 0 to {high}"
            self.say(field, f"is {shown(value)}; it must be {must}")
            return default
        return round(number * scale)

    def truth(self, field: str, default: bool) -> bool:
        value = self.value(field)
        if isinstance(value, str):
            value = _TRUTH.get(value.lower(), value)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.say(field, f"is {shown(value)}; it must be true or false")
        return default

    def words(self, field: str) -> tuple[str, ...]:
        """A list of texts, without repeats, in the order given."""
        value = self.value(field)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            self.say(field, f"is {shown(value)}; it must be a list of texts")
            return ()
        return tuple(dict.fromkeys(value))

    def pairs(self, field: str) -> tuple[tuple[str, object], ...]:
        """A mapping's items in order of their names: what a database gives back may be ordered otherwise."""
        value = self.value(field)
        if value is None:
            return ()
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self.say(field, f"is {shown(value)}; it must be a mapping of names to values")
            return ()
        return tuple(sorted(value.items()))

    def nested(self, field: str) -> Reader:
        return self.inside(field, dict(self.pairs(field)))

    def inside(self, field: str, mapping: Mapping[str, object]) -> Reader:
        """Reads this mapping as the value of the field: problems are collected here, under the field's name."""
        return Reader(mapping, self._problems, self._labels, f"{self._prefix}{field}.")

    def refuse_the_rest(self) -> None:
        """A field that nothing read is most often misspelt: refuse it by name."""
        names = sorted(self._read)
        for field in self._mapping:
            if field in names:
                continue
            near = difflib.get_close_matches(str(field), names, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(names)}"
            self.say(str(field), f"is not a field; {remedy}")
