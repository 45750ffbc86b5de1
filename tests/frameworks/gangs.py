"""Examples run as a gang: the very commands and variables of the agent, a folder a node, all on this machine."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from agent.launchers.command import Place, argv_of, environment_of
from platform_core.jobs import spec
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.spec import JobSpec
from tests.agent.launches import LAUNCH
from tests.sdk.scripts import attempt_folder, environment, events
from trainmaster.checkpoints.description import DESCRIPTION

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def job_of(example: str) -> JobSpec:
    described = yaml.safe_load((EXAMPLES / example / "job.yaml").read_text())
    return spec.parse({**described, "team": "vision", "code": ""})


@dataclass
class Gang:
    """One attempt of an example. `python` is that of the nodes."""

    example: str
    root: Path
    nodes: int = 2
    slots: int = 1
    python: str = sys.executable
    steps: int = 4
    save_every: int = 2
    seconds: int = 100
    parallel: Parallel | None = None  # None: as the job file has it
    variables: Mapping[str, str] = field(default_factory=dict)
    hyperparameters: Mapping[str, object] = field(default_factory=dict)

    def folder(self, node: int) -> Path:
        return self.root / f"node-{node}"

    def run(self, resume: Gang | None = None, step: int = 0) -> list[dict[str, Any]]:
        """The events of rank 0. `resume`: from the checkpoint of this step of another gang."""
        job, port = job_of(self.example), _free_port()
        launch = replace(
            LAUNCH,
            command=job.command,
            strategy=job.strategy,
            roles=job.roles,
            parallel=self.parallel or job.parallel,
            nodes=self.nodes,
            slots=tuple(range(self.slots)),
            master_port=port,
            checkpoint=replace(job.checkpoint, interval_steps=self.save_every),
            hyperparameters_json=json.dumps({"steps": self.steps, **self.hyperparameters}),
        )
        processes = []
        for node in range(self.nodes):
            folder = attempt_folder(self.folder(node))
            shutil.copytree(EXAMPLES / self.example, folder / "code", dirs_exist_ok=True)
            if resume is not None:
                resume.fetch(step, folder / "resume")
            here = replace(launch, node_rank=node)
            variables = environment_of(here, "att-test-gang", Place(folder, self.python, ()))
            variables |= {"TRAINMASTER_RESUME": str(folder / "resume")} if resume is not None else {}
            processes.append(
                subprocess.Popen(
                    argv_of(here, self.python),
                    cwd=folder / "code",
                    env=environment(**{**variables, **self.variables}),
                    stdout=(folder / "logs" / "launcher.log").open("wb"),
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        try:
            codes = [process.wait(self.seconds) for process in processes]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
        assert codes == [0] * self.nodes, self.logs()
        return events(self.folder(0) / "spool" / "rank-0.jsonl")

    def logs(self) -> str:
        return "\n".join(
            f"{path}:\n{path.read_text()[-5000:]}" for path in sorted(self.root.rglob("logs/*.log"))
        )

    def fetch(self, step: int, into: Path) -> None:
        """The parts of all nodes under one description, as an agent fetches a checkpoint."""
        parts = [self.folder(node) / "checkpoints" / f"step-{step:08}" for node in range(self.nodes)]
        written = [part for part in parts if part.is_dir()]
        for part in reversed(written):
            shutil.copytree(part, into, dirs_exist_ok=True)
        descriptions = [json.loads((part / DESCRIPTION).read_text()) for part in written]
        files = [file for description in descriptions for file in description["files"]]
        (into / DESCRIPTION).write_text(json.dumps({**descriptions[0], "files": files}))


def losses(said: list[dict[str, Any]]) -> dict[int, float]:
    return {
        event["step"]: event["values"]["loss"]
        for event in said
        if event["kind"] == "metrics" and "loss" in event["values"]
    }


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
