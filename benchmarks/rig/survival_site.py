"""The platform of `benchmarks.survival`: real programs, three agents of two slots each, and one job of four ranks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.rig.platform import LivePlatform, live_platform
from trainmaster import bundle
from trainmaster.client import Client
from webapp.operations.platform_process import training_process
from webapp.operations.programs import AGENT, GATEWAY, ROOT, runnable

SCRIPT = Path(__file__).parent / "survival_job" / "train.py"  # apart: its folder is on its path
GPU_TYPE = "bench"
NODES, SLOTS, RANKS = 3, 2, 4
DISK = "512m"
PREPARE = """
from webapp.accounts import services as accounts, tokens
from webapp.accounts.models import Role
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.quotas import services as quotas
accounts.create_team(SYSTEM, "bench", "Benchmark")
user = accounts.create_user(SYSTEM, "bench", "password of bench", is_admin=True)
accounts.set_role(SYSTEM, "bench", "bench", Role.LEAD)
accounts.create_team(SYSTEM, "urgent", "Urgent work")
accounts.set_role(SYSTEM, "urgent", "bench", Role.LEAD)
quotas.edit_quota(SYSTEM, "bench", "bench", guaranteed=0, maximum=1000, queue_beyond=True, version=0)
quotas.edit_quota(SYSTEM, "urgent", "bench", guaranteed=1000, maximum=1000, queue_beyond=True, version=0)
print(tokens.create_admin_token(actor_of(user), "bench", 1).text)
"""


STANDBY_PROCESSES = 4  # its command, torchrun, the server that forks ranks and the tracker of its resources
STANDBY_LOOK_S, STANDBY_IDLE_S, STANDBY_PATIENCE_S = 2.0, 0.1, 240.0


@dataclass
class Node:
    """One agent with a data folder of its own."""

    name: str
    data: Path
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    has_own_disk: bool = False  # which a fault may fill

    def mount(self) -> None:
        """A small disk for its data, where this user may mount one."""
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "survival", str(self.data)],
            capture_output=True, check=False,
        )  # fmt: skip
        self.has_own_disk = done.returncode == 0

    def unmount(self) -> None:
        if self.has_own_disk:
            subprocess.run(["umount", "--lazy", str(self.data)], capture_output=True, check=False)

    @property
    def notice(self) -> Path:
        return self.data.with_suffix(".notice")

    def start(self) -> None:
        self.notice.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                runnable(AGENT), env=os.environ | dict(self.environment), stdout=log, stderr=log, start_new_session=True
            )  # fmt: skip

    def kill_agent(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """The whole machine: the agent and all processes of attempts, at one moment."""
        victims = [process for root in self.roots() for process in [root, *root.children(recursive=True)]]
        if self.process is not None:
            with suppress(psutil.Error):
                victims += psutil.Process(self.process.pid).children(recursive=True)
            self.process.send_signal(signal.SIGKILL)
        for victim in victims:
            with suppress(psutil.Error):
                victim.kill()
        self.kill_agent()

    def roots(self) -> list[psutil.Process]:
        paths = self.data.glob("records/*/process.json")
        return [process for path in paths if (process := training_process(path)) is not None]

    def standby_cpu_s(self) -> float | None:
        """The CPU time of what stands by here for the next attempt; None while something is still being started."""
        seconds, count, at_work = (
            0.0,
            0,
            set(self.roots()),
        )  # what stood by and has begun is an attempt like others
        assert self.process is not None
        for waiting in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):
                if waiting in at_work or "agent.launchers.waiting" not in waiting.cmdline():
                    continue
                for process in waiting.children(recursive=True):
                    times = process.cpu_times()
                    seconds, count = seconds + times.user + times.system, count + 1
        return seconds if count >= STANDBY_PROCESSES else None

    def ranks(self) -> list[psutil.Process]:
        """The processes that train: those that write the log of a rank."""
        found = []
        for root in self.roots():
            for child in root.children(recursive=True):
                with suppress(psutil.Error):
                    if any("/logs/rank-" in path.path for path in child.open_files()):
                        found.append(child)
        return sorted(found, key=lambda process: process.pid)


@dataclass
class Site:
    live: LivePlatform
    folder: Path
    client: Client
    gateway_environment: dict[str, str]
    nodes: list[Node] = field(default_factory=list)
    gateway: subprocess.Popen[bytes] | None = None

    @property
    def progress(self) -> Path:
        return self.folder / "progress"

    @property
    def end(self) -> Path:
        return self.folder / "end"

    @property
    def store(self) -> Path:
        return self.live.process.folder / "store"

    def start_gateway(self) -> None:
        with (self.folder / "gateway.log").open("ab") as log:
            self.gateway = subprocess.Popen(
                runnable(GATEWAY), cwd=ROOT, env=os.environ | self.gateway_environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def kill_gateway(self) -> None:
        assert self.gateway is not None
        self.gateway.kill()
        self.gateway.wait()

    def submit(self, every: int, *, script: Path = SCRIPT, **fields: object) -> str:
        """The job of four ranks; its id."""
        code = self.folder / f"code-{script.stem}"
        code.mkdir(exist_ok=True)
        shutil.copy(script, code / "train.py")
        manifest = self.client.upload("code", "bench", "survival", bundle.code_files(code))
        spec = {
            "name": "survival", "team": "bench", "command": "python train.py", "code": manifest, "num_gpus": RANKS,
            "gpu_type": GPU_TYPE, "max_runtime_hours": 2, "preemptible": True, "max_restarts": 100,
            "checkpoint": {"interval_steps": every, "keep_last": 3},
            "environment": {
                "SURVIVAL_EVERY": str(every), "SURVIVAL_PROGRESS": str(self.progress), "SURVIVAL_END": str(self.end),
            },
            **fields,
        }  # fmt: skip
        return self.client.submit(spec, idempotency_key=str(spec["name"])).id

    def until_stood_by(self) -> None:
        """Until each busy node has processes that have finished their imports and wait."""
        before: list[float] = []
        deadline = time.monotonic() + STANDBY_PATIENCE_S
        while time.monotonic() < deadline:
            times = [node.standby_cpu_s() for node in self.busy()]
            now = [spent for spent in times if spent is not None]
            if now and len(now) == len(times) == len(before) and sum(now) - sum(before) < STANDBY_IDLE_S:
                return
            before = now
            time.sleep(STANDBY_LOOK_S)
        raise RuntimeError(f"nothing stood by within {STANDBY_PATIENCE_S:.0f} s")

    def busy(self) -> list[Node]:
        """The nodes on which ranks run."""
        return [node for node in self.nodes if node.ranks()]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def site(settings: Mapping[str, str] | None = None) -> Iterator[Site]:
    """Stopped and removed at the end, whatever happened."""
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-survival-"))
    # As in the figures that were measured before: what waits for a lost node waits for so long.
    with live_platform(0, {"TRAINMASTER_LOST_AFTER_SECONDS": "30", **(settings or {})}) as live:
        token = live.process.manage("shell", "--no-imports", "-c", PREPARE).strip()
        # A gateway of our own, which can be killed: `trainmaster up` ends with any of its programs.
        listen = f"127.0.0.1:{_free_port()}"
        environment = {**live.environment, "TRAINMASTER_GATEWAY_LISTEN": listen}
        it = Site(live, folder, Client(live.process.url, token), environment)
        try:
            it.start_gateway()
            for number in range(1, NODES + 1):
                it.nodes.append(_node(it, number, listen))
                it.nodes[-1].mount()
                it.nodes[-1].start()
            _until(lambda: sum(node.state == "ready" for node in it.client.nodes()) == NODES, 120)
            yield it
        finally:
            for node in it.nodes:
                with suppress(Exception):
                    node.kill()
                node.unmount()
            with suppress(Exception):
                it.kill_gateway()
            _keep_logs(it)
            shutil.rmtree(folder, ignore_errors=True)


def _node(it: Site, number: int, listen: str) -> Node:
    name, data = f"node-{number}", it.folder / f"node-{number}"
    data.mkdir()
    settings = {
        "SERVER": listen, "TOKEN": it.live.environment["TRAINMASTER_BOOTSTRAP_TOKEN"], "DATA": str(data),
        "HOSTNAME": name, "RACK": "rack-1", "SLOTS": str(SLOTS), "GPU_TYPE": GPU_TYPE, "ADDRESS": "127.0.0.1",
        "INSECURE": "1", "NOTICE_URL": data.with_suffix(".notice").as_uri(), "NOTICE_SECONDS": "12",
        "HANG_FLOOR_SECONDS": "15",
    }  # fmt: skip
    environment = {f"TRAINMASTER_AGENT_{key}": value for key, value in settings.items()}
    return Node(name, data, environment, it.folder / f"{name}.log")


def _keep_logs(it: Site) -> None:
    """Where SURVIVAL_LOGS names a folder, for a look afterwards."""
    place = os.environ.get("SURVIVAL_LOGS")
    if place:
        for path in it.folder.glob("*.log"):
            shutil.copy(path, place)
        for path in (it.live.process.folder / "logs").glob("*.log"):
            shutil.copy(path, Path(place) / f"platform-{path.name}")


def _until(look: object, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not look():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise RuntimeError(f"the platform was not ready within {seconds:.0f} s")
        time.sleep(0.1)


def steps_of(progress: Path) -> list[tuple[int, float]]:
    """(step, when), in the order in which they were made, repeated ones too."""
    if not progress.exists():
        return []
    lines = (line.split() for line in progress.read_text().splitlines())
    return [(int(words[0]), float(words[1])) for words in lines if len(words) == 2]


def recoveries(client: Client, job_id: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(
        json.dumps(client.call("GET", f"training-jobs/{job_id}/recoveries"))
    )
    return answer
