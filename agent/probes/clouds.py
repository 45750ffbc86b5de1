"""How the three big clouds say that a machine is about to be taken away.

Each has a metadata service at an address that only the machine itself can reach, and each demands something of who
asks: a token, or a header. Amazon and Google answer 404 or FALSE while there is no notice, Azure a list of events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ADDRESS = "http://169.254.169.254"
TOKEN_SECONDS = 21_600  # the longest that Amazon gives
_LEAVING = frozenset({"Preempt", "Terminate"})


@dataclass(frozen=True, slots=True)
class Source:
    """One address that may say it; `says_so` reads an answer of status 200, and the name of this machine."""

    path: str
    says_so: Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Cloud:
    """`token_path`: where a token is got with PUT, which then goes with each request; '': none is needed."""

    sources: tuple[Source, ...]
    headers: Mapping[str, str]
    seconds: int  # which a notice of it leaves
    token_path: str = ""
    token_header: str = ""
    ttl_header: str = ""
    name_path: str = ""  # where the machine learns the name by which its notices call it


def is_word(text: str, machine: str = "") -> bool:
    """Of a source that says nothing, FALSE or NONE while there is no notice."""
    return text.strip().upper() not in ("", "FALSE", "NONE")


def _is_leaving(text: str, machine: str) -> bool:
    """Azure: events of all machines of a set, each with its type; a reboot or a freeze leaves the machine there."""
    events = [event for event in json.loads(text).get("Events", []) if event.get("EventType") in _LEAVING]
    return any(machine in event.get("Resources", [machine]) for event in events)


def _terminates(text: str, machine: str) -> bool:
    """Google: a machine that maintenance moves elsewhere goes on."""
    return text.strip().startswith("TERMINATE")


CLOUDS: Mapping[str, Cloud] = {
    "aws": Cloud(
        (
            Source("/latest/meta-data/spot/instance-action", is_word),
            Source("/latest/meta-data/events/recommendations/rebalance", is_word),
        ),
        {},
        120,
        "/latest/api/token",
        "X-aws-ec2-metadata-token",
        "X-aws-ec2-metadata-token-ttl-seconds",
    ),
    "gcp": Cloud(
        (
            Source("/computeMetadata/v1/instance/preempted", is_word),
            Source("/computeMetadata/v1/instance/maintenance-event", _terminates),
        ),
        {"Metadata-Flavor": "Google"},
        30,
    ),
    "azure": Cloud(
        (Source("/metadata/scheduledevents?api-version=2020-07-01", _is_leaving),),
        {"Metadata": "true"},
        30,
        name_path="/metadata/instance/compute/name?api-version=2021-02-01&format=text",
    ),
}
