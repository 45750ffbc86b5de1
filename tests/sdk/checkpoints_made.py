"""Checkpoints written in this process, also as version 0.1.0 wrote them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trainmaster.checkpoints import random_state
from trainmaster.checkpoints.loading import Loaded, Source, load
from trainmaster.checkpoints.saving import Request, Saver


def make_saver(parent: Path, keep_last: int = 0, warned: list[str] | None = None) -> Saver:
    warned = [] if warned is None else warned
    return Saver(parent, keep_last, lambda: 1_700_000_000_000, lambda path, description: None, warned.append)


def save(parent: Path, state: Mapping[str, Any], step: int = 50, **metrics: float) -> Path:
    saved = make_saver(parent).save(state, Request(step, metrics, blocking=True))
    assert saved is not None
    return saved


def load_one(path: Path, into: Mapping[str, Any] | None = None) -> Loaded:
    loaded = load(Source([path], lambda sentence: None, go_back=False), into)
    assert loaded is not None
    return loaded


def save_format_1(parent: Path, state: Mapping[str, Any], step: int = 50, world_size: int = 1) -> Path:
    folder = parent / f"step-{step:08d}"
    folder.mkdir(parents=True)
    files = []
    for name, value in (("state.pt", dict(state)), ("random.pt", [random_state.capture()] * world_size)):
        written = io.BytesIO()
        torch.save(value, written)
        data = written.getvalue()
        (folder / name).write_bytes(data)
        files.append({"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()})
    document = {
        "format": 1,
        "step": step,
        "saved_at_ms": 1_700,
        "world_size": world_size,
        "metrics": {},
        "files": files,
    }
    (folder / "trainmaster.json").write_text(json.dumps(document))
    return folder
