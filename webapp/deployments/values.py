from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model goes to its nodes. `preheat`: fetched and verified, never activated, and the first to go for room;
    `pin`: never to go for room. `priority` weighs where deployments share a link, 0 is the usual one; `rate_cap` in
    bytes per second holds on each node, in and out, 0 is none."""

    strategy: str = "auto"  # one of planning.STRATEGIES
    preheat: bool = False
    pin: bool = False
    priority: int = 0
    rate_cap: int = 0
