"""What the apps above know of nodes: for whom a place is kept. They cannot be imported here, so they register it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from webapp.accounts.permissions import Actor


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """Nodes that a waiting job is to get together. Who may not see the job is told its team alone."""

    job_id: str  # "" for those
    name: str  # "large-gang", or "a job of vision"
    team: str
    gpus: int
    gpu_type: str
    starts: str  # "in about 20 min"
    nodes: tuple[str, ...]


KeptPlaces = Callable[[Actor], Sequence[KeptPlace]]  # in the order of the queue

_KEPT: list[KeptPlaces] = []


def register_kept_places(places: KeptPlaces) -> None:
    _KEPT[:] = [places]


def kept_places(actor: Actor) -> Sequence[KeptPlace]:
    return _KEPT[0](actor) if _KEPT else ()
