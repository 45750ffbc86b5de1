"""A number with its label, as templates/parts/kpis.html shows it: the first of a page is its headline number."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    label: str
    value: str
    note: str = ""
    tone: str = ""  # wait or bad
