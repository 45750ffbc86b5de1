"""Values of a node and their messages: nothing is lost on the way, and no field of any message is forgotten."""

import importlib
import math
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.node.description import NodeDescription, Telemetry
from platform_core.node.observed import AttemptObserved, DeploymentObserved, Observed, TransferState
from platform_core.node.wanted import Wanted, WantedAction
from trainmaster_wire import conversion
from trainmaster_wire.agent.v1 import session_pb2
from trainmaster_wire.conversion import LOCAL, MESSAGES, UnknownMember, from_wire, to_wire

WIRE = Path(session_pb2.__file__).parent
# Messages that no value stands for, and why.
ENVELOPES = {
    "FromAgent": "one of the messages of a session; the session takes it apart",
    "FromServer": "one of the messages of a session; the session takes it apart",
    "Hello": "opens a session around a description and an observed state",
    "Welcome": "answers it; its few fields are settings of the session",
    "Heartbeat": "counts heartbeats around a telemetry",
    "HeartbeatAck": "counts heartbeats",
    "Lane": "one list of a list of lists",
    "JoinRequest": "takes a token and a description",
    "JoinReply": "gives a credential",
    **dict.fromkeys(("ManifestRequest", "ManifestReply"), "passes a manifest on as its own JSON"),
    **dict.fromkeys(
        ("Batch", "CheckpointUploaded", "ArtifactUploaded", "ValueFile", "Ack"),
        "is written once by the agent's uplink and read once by the gateway's",
    ),
    **dict.fromkeys(
        ("HashRequest", "HashedFile", "HashReply", "FileToHash"),
        "is written once by the agent that hashes files and read once by the gateway, and the other way",
    ),
    **dict.fromkeys(
        ("WatchRequest", "Holds", "LaneHeld", "PiecesWanted", "FromPeer", "Part", "Waiting", "NotHere"),
        "goes from agent to agent, in frames that spare a copy of the bytes",
    ),
}

TEXT = some.text(some.characters(exclude_categories=["Cs"]), max_size=8)
PAIRS = some.dictionaries(TEXT, TEXT, max_size=3)
NUMBERS: dict[str, some.SearchStrategy[Any]] = {
    "uint32": some.integers(0, 2**32 - 1),
    "int32": some.integers(-(2**31), 2**31 - 1),
    "sint32": some.integers(-(2**31), 2**31 - 1),
    "uint64": some.integers(0, 2**64 - 1),
    "int64": some.integers(-(2**63), 2**63 - 1),
    "float": some.floats(width=32, allow_nan=False),
    "double": some.floats(allow_nan=False),
    "bool": some.booleans(),
    "string": TEXT,
    "bytes": some.binary(max_size=8),
}
TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 12: "bytes", 13: "uint32",
    17: "sint32",
}  # fmt: skip


def values_of(kind: Any) -> some.SearchStrategy[Any]:
    """Any value that a message of its kind can carry."""
    by_name = MESSAGES[kind].DESCRIPTOR.fields_by_name
    hints = conversion.get_type_hints(kind)
    sent = [field.name for field in fields(kind) if field.name not in LOCAL.get(kind, ())]
    return some.builds(kind, **{name: contents(hints[name], by_name[name]) for name in sent})


def contents(hint: Any, field: Any) -> some.SearchStrategy[Any]:
    if type(None) in (inner := conversion.get_args(hint)):
        (hint,) = (each for each in inner if each is not type(None))
        return some.none() | contents(hint, field)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if inner[-1] is float:
            return some.dictionaries(TEXT, NUMBERS["double"], max_size=3)
        is_pairs = conversion.get_origin(hint) is tuple
        return PAIRS.map(lambda texts: tuple(sorted(texts.items()))) if is_pairs else PAIRS
    if not field.is_repeated:
        return single(hint, field)
    container = conversion.get_origin(hint)
    return some.lists(single(inner[0], field), max_size=3).map(container)


def single(hint: Any, field: Any) -> some.SearchStrategy[Any]:
    if hint in MESSAGES:
        return values_of(hint)
    if conversion.get_origin(hint) is tuple:
        return some.lists(TEXT, max_size=3).map(tuple)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return some.sampled_from([member for member in hint if member.name not in LOCAL.get(hint, ())])
    return NUMBERS[TYPES[field.type]]


@pytest.mark.parametrize(
    "kind", [Wanted, Observed, NodeDescription, Telemetry], ids=lambda kind: kind.__name__
)
def test_a_value_comes_back_from_its_bytes_as_it_was(kind: Any) -> None:
    @settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(values_of(kind))
    def check(value: Any) -> None:
        sent = to_wire(value).SerializeToString()
        assert from_wire(kind, MESSAGES[kind].FromString(sent)) == value

    check()


def test_every_message_is_converted_or_has_a_reason_not_to_be() -> None:
    modules = [
        importlib.import_module(f"trainmaster_wire.agent.v1.{path.stem}") for path in WIRE.glob("*_pb2.py")
    ]
    messages = {name for module in modules for name in module.DESCRIPTOR.message_types_by_name}
    converted = {message.DESCRIPTOR.name for message in MESSAGES.values()}
    assert converted | set(ENVELOPES) == messages
    assert not converted & set(ENVELOPES)


def test_a_field_that_one_side_alone_has_stops_the_import() -> None:
    @dataclass(frozen=True)
    class Peer:
        node_id: str
        rack: str

    with pytest.raises(TypeError, match="only one of Peer and its message has address, rack"):
        conversion._Codec(Peer, session_pb2.Peer)


def test_a_member_that_one_side_alone_has_stops_the_import() -> None:
    class Action(StrEnum):
        RUN = "run"
        PAUSE = "pause"

    numbers = session_pb2.AttemptWanted.DESCRIPTOR.enum_types_by_name["Action"]
    with pytest.raises(TypeError, match="only one of Action and its message has PAUSE, STOP"):
        conversion._enum(Action, numbers)


def test_an_attempt_whose_action_is_not_known_is_not_wanted() -> None:
    attempts = [session_pb2.AttemptWanted(attempt_id=str(action), action=action) for action in (0, 1, 2, 17)]
    wanted = from_wire(Wanted, session_pb2.Wanted(attempts=attempts))
    assert [attempt.action for attempt in wanted.attempts] == [WantedAction.RUN, WantedAction.STOP]


def test_an_end_that_is_not_known_is_that_of_the_script_and_a_state_that_is_not_known_is_passed_over() -> (
    None
):
    exited = session_pb2.AttemptObserved.EXITED
    attempts = [session_pb2.AttemptObserved(phase=exited, end=end) for end in (0, 1, 99)]
    deployments = [session_pb2.DeploymentObserved(state=state) for state in (0, 3, 17)]
    observed = from_wire(Observed, session_pb2.Observed(attempts=attempts, deployments=deployments))
    assert [attempt.end for attempt in observed.attempts] == [EndReason.SCRIPT_ERROR] * 3
    assert [deployment.state for deployment in observed.deployments] == [TransferState.VERIFYING]
    with pytest.raises(UnknownMember):
        from_wire(AttemptObserved, session_pb2.AttemptObserved(phase=17))


def test_what_a_message_leaves_out_has_the_default_of_the_value() -> None:
    wanted = from_wire(Wanted, session_pb2.Wanted(deployments=[session_pb2.DeploymentWanted()]))
    share = wanted.deployments[0].share
    assert (share.weight, share.cap, share.team_cap) == (10, math.inf, math.inf)
    assert (
        from_wire(Telemetry, session_pb2.Telemetry(slots=[session_pb2.SlotTelemetry()])).slots[0].utilisation
        is None
    )


def test_what_is_the_agents_own_stays_there() -> None:
    stopping = AttemptObserved("att-a", MemberPhase.RUNNING, stopping=True)
    assert not from_wire(AttemptObserved, to_wire(stopping)).stopping
    assert LOCAL[DeploymentObserved] == {"acting_on"}
