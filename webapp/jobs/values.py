from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobFact:
    """What pages say of a job they know by its id."""

    name: str
    state: str
