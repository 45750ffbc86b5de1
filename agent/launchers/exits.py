"""exit.json: how the command of an attempt ended, written once, by whoever saw it."""

from __future__ import annotations

import json

from agent.files import read_json, write_atomically
from agent.launchers.contract import Ended
from agent.work_folder import WorkFolder


def read_exit(folder: WorkFolder) -> Ended | None:
    document = read_json(folder.exit_file)
    if document is None:
        return None
    return Ended(
        exit_code=int(document.get("exit_code", 125)),
        stopped=bool(document.get("stopped")),
        killed_after_grace=bool(document.get("killed_after_grace")),
        memory_limit_bytes=int(document.get("memory_limit_bytes") or 0),
        agent_silent_ms=int(document.get("agent_silent_ms") or 0),
        vanished=bool(document.get("vanished")),
        trouble=str(document.get("trouble", "")),
    )


def leave_exit(folder: WorkFolder, ended: Ended) -> Ended:
    document = {
        "exit_code": ended.exit_code,
        "stopped": ended.stopped,
        "killed_after_grace": ended.killed_after_grace,
        "memory_limit_bytes": ended.memory_limit_bytes,
        "agent_silent_ms": ended.agent_silent_ms,
        "vanished": ended.vanished,
        "trouble": ended.trouble,
    }
    write_atomically(folder.exit_file, json.dumps(document).encode(), durable=True)
    return ended
