"""Reading what an attempt left in its folder."""

from __future__ import annotations

import dataclasses
import json
import re

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from agent.attempts.verdict import RankEnd, Verdict, decide
from agent.files import read_json, write_atomically
from agent.job_files import JobPath
from agent.launchers.contract import Ended
from agent.work_folder import WorkFolder
from platform_core.node.wanted import Launch
from trainmaster.checkpoints.folder import CheckpointCorrupt
from trainmaster_wire.agent.v1 import session_pb2
from trainmaster_wire.conversion import from_wire, to_wire

_TAIL_BYTES = 64 * 1024
_MOST_RANKS = 10_000
_CORRUPT = (
    f"{CheckpointCorrupt.__module__}.{CheckpointCorrupt.__qualname__}: "  # as a rank's last line has it
)
_RANK = re.compile(r"rank-(\d{1,9})\.(?:exit|log)")


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptRecord:
    """attempt.json: what a restarted agent needs to go on, without any secret value."""

    launch: Launch  # its secrets have names only
    secret_names: tuple[str, ...]


def write_record(folder: WorkFolder, launch: Launch) -> None:
    message = to_wire(dataclasses.replace(launch, secrets=(), delivery=None))
    document = {
        "launch": MessageToDict(message, preserving_proto_field_name=True),
        "secrets": [name for name, _ in launch.secrets],
    }
    write_atomically(folder.attempt_file, json.dumps(document).encode(), mode=0o600)


def read_record(folder: WorkFolder) -> AttemptRecord | None:
    document = read_json(folder.attempt_file)
    if document is None:
        return None
    try:
        message = ParseDict(document["launch"], session_pb2.Launch(), ignore_unknown_fields=True)
        return AttemptRecord(from_wire(Launch, message), tuple(document["secrets"]))
    except (ParseError, TypeError, KeyError):
        return None  # written by another version


def verdict_of(folder: WorkFolder, ended: Ended, expected_ranks: int, resumed: bool) -> Verdict:
    """`resumed`: it was given a checkpoint to go on from."""
    ranks = {rank: _rank_end(file) for rank, file in _ranked(folder, "ranks")}
    logs = {rank: _tail(file) for rank, file in _ranked(folder, "logs")}
    launcher_log = _tail(JobPath(folder.path, "logs/launcher.log"))
    verdict = decide(ended, ranks, expected_ranks, launcher_log, logs)
    refused = resumed and not ended.stopped and any(_CORRUPT in end.error for end in ranks.values())
    return dataclasses.replace(verdict, resume_damaged=refused)


def _ranked(folder: WorkFolder, name: str) -> list[tuple[int, JobPath]]:
    place = JobPath(folder.path, name)
    matches = filter(None, map(_RANK.fullmatch, place.entries(_MOST_RANKS)))
    return [(int(match[1]), place / match[0]) for match in matches]


def _rank_end(file: JobPath) -> RankEnd:
    """A bare number, or JSON with `exit_code` and perhaps `error`."""
    try:
        document = json.loads(file.read(0, _TAIL_BYTES))
        if isinstance(document, dict):
            return RankEnd(int(document.get("exit_code", 1)), str(document.get("error") or ""))
        return RankEnd(int(document))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return RankEnd(1)


def _tail(file: JobPath) -> str:
    return file.tail(_TAIL_BYTES).decode(errors="replace")
