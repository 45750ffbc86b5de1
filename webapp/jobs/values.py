from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobFact:
    """Name and state of a job that is known by its id."""

    name: str
    state: str
