"""The running platform as every test here meets it: its address, its people's tokens, its files, its processes."""

import hashlib
import runpy
import shutil
import sysconfig
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import psutil

from trainmaster import bundle
from trainmaster.answers import Job
from trainmaster.client import Client
from webapp.operations.platform_process import PlatformProcess, training_process
from webapp.operations.programs import ROOT

T = TypeVar("T")
EXAMPLE = ROOT / "examples" / "bytelm"
TOKENS = {"bob": "vision", "carol": "nlp"}
SPARE = "spare"  # the type of the spare agent: the other jobs never go there, and its own never go elsewhere
GPU_TYPES = ("cpu", SPARE)
# Small enough for four ranks on two cores, and still ten steps a second or so on a machine that does other things.
SMALL = {"layers": 1, "width": 32, "context": 32, "batch": 12, "eval_batch": 12, "warmup": 5}
PATIENCE = 300.0  # seconds, of every wait here: what takes ten on a quiet machine may need them on a busy one


def until(what: str, look: Callable[[], T], seconds: float = PATIENCE) -> T:
    """What `look` sees as soon as that is anything."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)
    return seen


@dataclass
class Site:
    platform: PlatformProcess
    scratch: Path
    clients: dict[str, Client] = field(default_factory=dict)
    sessions: dict[str, Any] = field(default_factory=dict)  # cookies of those who have signed in before

    @property
    def url(self) -> str:
        return self.platform.url

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def bob(self) -> Client:
        return self.clients["bob"]

    def sign_up(self) -> None:
        """People, a token for those who use the API, and quotas of the four nodes when they have joined."""
        tokens = self._operate(
            ("seed_demo", "--slots", "0"), *(("token", *pair, "--name", "e2e") for pair in TOKENS.items())
        )
        self.clients = {name: Client(self.url, token) for name, token in zip(TOKENS, tokens, strict=True)}
        until("four ready nodes", lambda: sum(node.state == "ready" for node in self.bob.nodes()) == 4)
        self._operate(*(("seed_demo", "--gpu-type", gpu_type) for gpu_type in GPU_TYPES))

    def _operate(self, *commands: tuple[str, ...]) -> list[str]:
        """The commands of an operator, in one process; the words that they print."""
        script = (
            f"from django.core.management import call_command as call\nfor each in {commands}: call(*each)"
        )
        return self.platform.manage("shell", "--no-imports", "-c", script).split()

    @cached_property
    def code(self) -> str:
        return self.bob.upload("code", "vision", "bytelm", bundle.code_files(EXAMPLE))

    @cached_property
    def scripts(self) -> str:
        return self.bob.upload("code", "vision", "scripts", bundle.code_files(Path(__file__).parent / "jobs"))

    @cached_property
    def dataset(self) -> str:
        """Some of Python's own files: enough for a few steps, and quick to send."""
        source = self.scratch / "source"
        source.mkdir()
        for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:20]:
            shutil.copy(file, source)
        collect = runpy.run_path(str(EXAMPLE / "prepare.py"))["collect"]
        files = bundle.data_files(collect(self.scratch / "python-stdlib", source))
        manifest = self.bob.upload("dataset", "vision", "python-stdlib", files)
        return self.bob.add_snapshot("python-stdlib", team="vision", manifest=manifest, purpose="training").id

    def bytelm(self, name: str, ranks: int, steps: int, checkpoint_every: int) -> Job:
        return self.submit(
            name,
            command="train.py",
            code=self.code,
            dataset=self.dataset,
            purpose="training",
            num_gpus=ranks,
            experiment="bytelm",
            checkpoint={"interval_steps": checkpoint_every, "keep_last": 2},
            hyperparameters={**SMALL, "steps": steps, "eval_every": checkpoint_every},
        )

    def script(self, name: str, script: str, **fields: Any) -> Job:
        given = {"command": f"python {script}", "code": self.scripts, "strategy": "custom", "num_gpus": 1}
        return self.submit(name, **{**given, **fields})

    def submit(self, name: str, **fields: Any) -> Job:
        spec = {"name": name, "team": "vision", "gpu_type": "cpu", "max_runtime_hours": 1, **fields}
        return self.bob.submit(spec, idempotency_key=str(uuid.uuid4()))

    def trained(self) -> Job:
        """A job that has succeeded and left a checkpoint: the newest that there is, else one made for this."""
        known = [job for job in self.bob.jobs(state="succeeded") if job.latest_checkpoint]
        return known[0] if known else self.finished(self.bytelm("made-early", 2, 20, 20).id)

    def reached(self, job_id: str, step: int) -> Job:
        def look() -> Job | None:
            job = self.bob.job(job_id)
            assert not job.is_finished, f"{job.name} {job.state} before step {step}: {job.reason}"
            return job if (job.progress.get("step") or 0) >= step else None

        return until(f"step {step} of {job_id}", look)

    def finished(self, job_id: str) -> Job:
        def look() -> Job | None:
            job = self.bob.job(job_id)
            return job if job.is_finished else None

        return until(f"the end of {job_id}", look)

    def places(self, job_id: str) -> list[str]:
        """The nodes of its last attempt."""
        names = {node.id: node.hostname for node in self.bob.nodes()}
        placed = [event for event in self.bob.events(job_id) if event["kind"] == "Placed"]
        return sorted(names[member["node"]] for member in placed[-1]["data"]["members"])

    def processes(self, job_id: str) -> dict[str, psutil.Process]:
        """The root of what runs for this job, on each node by its name."""
        found = {}
        for path in (self.platform.folder / "agents").glob("*/records/*/attempt.json"):
            process = training_process(path.with_name("process.json"))
            if process is not None and job_id in path.read_text():
                found[path.parents[2].name] = process
        return found

    def model_sums(self, node: str, model: str, version: int) -> dict[str, str]:
        """Path to SHA-256 of what a node holds of a model."""
        home = self.platform.folder / "agents" / node / "models" / "vision" / model / str(version)
        return {
            str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(home.rglob("*"))
            if path.is_file()
        }

    def node_id(self, hostname: str) -> str:
        return next(node.id for node in self.bob.nodes() if node.hostname == hostname)

    def logs(self) -> str:
        """The end of what each program said."""
        files = sorted((self.platform.folder / "logs").glob("*.log"))
        return "\n".join(f"--- {path.name}\n{_end(path)}" for path in files if path.stat().st_size)


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _end(path: Path, lines: int = 12) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
