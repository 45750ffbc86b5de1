"""Jobs as system users of their teams. Only root can become another user: elsewhere the agent refuses to start so."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from agent.attempts.preparation import NodeFacts, PreparationError, prepare
from agent.config import ConfigError, Isolation, load
from agent.launchers import processes
from agent.launchers.accounts import Account
from agent.launchers.process import ProcessLauncher
from agent.launchers.stop_file import write_stop
from agent.work_folder import WorkFolder, WorkFolders
from platform_core.jobs.ends import EndReason
from tests.agent.launchers.conftest import order, until_ended, until_logged
from tests.agent.launches import LAUNCH

# Numbers do without an entry in /etc/passwd.
VISION = Account("tm-vision", 64_801, 64_801, (64_801,), Path("/nonexistent"))
NLP = Account("tm-nlp", 64_802, 64_802, (64_802,), Path("/nonexistent"))
FACTS = NodeFacts("python", {}, {}, "")


@pytest.fixture
def data() -> Iterator[Path]:
    """As the agent leaves it for others to pass through. Where not root, whoever runs the tests owns it."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    (folder / "attempts").mkdir(mode=0o711)
    folder.chmod(0o711)
    (folder / "node.json").write_text("credential")
    (folder / "node.json").chmod(0o600)
    yield folder
    shutil.rmtree(folder)


def started(
    data: Path, account: Account, script: str, **environment: str
) -> tuple[ProcessLauncher, WorkFolder]:
    folder = WorkFolders(data).of(f"att-test-{uuid.uuid4().hex}")
    folder.create()
    launcher = ProcessLauncher()
    launcher.start(replace(order(launcher, folder, script, **environment), account=account))
    return launcher, folder


def refused_where_not_root() -> bool:
    if os.geteuid() == 0:
        return False
    needed = {"server": "control:1", "data": "/var/lib/trainmaster", "isolation": "user"}
    with pytest.raises(ConfigError, match="run it as root"):
        load(needed, {})
    return True


def test_a_job_runs_as_its_teams_user_in_a_folder_that_is_its_own(data: Path) -> None:
    if refused_where_not_root():
        return
    script = (
        "id -u; id -G; sudo -n true 2>&- || echo no sudo; echo x > $TRAINMASTER_DIR/checkpoints/x; exit 3"
    )
    launcher, folder = started(data, VISION, script)
    assert until_ended(launcher, folder).exit_code == 3
    assert folder.rank_log(0).read_text() == "64801\n64801\nno sudo\n"
    assert (folder.path.stat().st_mode & 0o777, folder.path.stat().st_uid) == (0o700, VISION.uid)
    assert (folder.checkpoints / "x").stat().st_uid == VISION.uid


def test_a_job_reads_neither_the_credential_nor_another_teams_files_and_environment(data: Path) -> None:
    if refused_where_not_root():
        return
    theirs, secret = started(data, NLP, "echo here; sleep 300", NLP_SECRET="hush")
    until_logged(secret, "here")
    pids = " ".join(str(process.pid) for process in processes.marked(secret.attempt_id))
    tries = [str(data / "node.json"), str(secret.rank_log(0)), str(secret.process_file)]
    script = (
        f"for file in {' '.join(tries)}; do cat $file 2>/dev/null && echo leaked $file; done;"
        f" for pid in {pids} $PPID; do cat /proc/$pid/environ >/dev/null 2>&1 && echo leaked $pid; done;"
        f" ls {data} 2>/dev/null; kill -9 {pids} $PPID 2>/dev/null && echo killed;"
        f" echo '{{\"exit_code\": 9}}' > {secret.records}/exit.json; echo done"
    )
    launcher, folder = started(data, VISION, script)
    until_ended(launcher, folder)
    lines = folder.rank_log(0).read_text().splitlines()
    assert [line for line in lines if "Permission denied" not in line] == ["done"]
    theirs.stop(secret, 0)
    assert until_ended(theirs, secret).killed_after_grace


def test_a_link_that_the_job_puts_in_the_place_of_the_stop_file_is_replaced(
    data: Path, folder: WorkFolder
) -> None:
    victim = data / "victim"
    victim.write_text("untouched")
    folder.stop_file.symlink_to(victim)
    (folder.path / ".stop.new").symlink_to(victim)
    write_stop(folder, 5)
    assert not folder.stop_file.is_symlink()
    assert victim.read_text() == "untouched"


def test_a_fifo_in_the_place_of_the_stop_file_does_not_hold_up_the_end(
    data: Path, folder: WorkFolder
) -> None:
    os.mkfifo(folder.stop_file)
    launcher = ProcessLauncher()
    launcher.start(order(launcher, folder, "trap 'exit 4' TERM; while :; do sleep 0.1; done"))
    assert until_ended(launcher, folder).exit_code == 4


def test_a_team_without_a_user_on_the_node_is_refused_with_the_command(tmp_path: Path) -> None:
    folder = WorkFolders(tmp_path).of("att-test-no-user")
    team = replace(LAUNCH, team="no-such-team", strategy="custom")
    facts = replace(FACTS, isolation=Isolation.USER)
    with pytest.raises(
        PreparationError, match="useradd --system --user-group --no-create-home tm-no-such-team"
    ):
        prepare(folder, team, facts, lambda *_: None, Event())


def test_a_node_for_containers_only_refuses_a_process_job(tmp_path: Path) -> None:
    folder = WorkFolders(tmp_path).of("att-test-process")
    facts = replace(FACTS, isolation=Isolation.CONTAINERS)
    with pytest.raises(
        PreparationError, match=r"containers only.* give the job a container_image"
    ) as refusal:
        prepare(folder, LAUNCH, facts, lambda *_: None, Event())
    assert refusal.value.end is EndReason.SCRIPT_ERROR
    image = replace(LAUNCH, container_image="pytorch:2")
    assert prepare(folder, image, facts, lambda *_: None, Event()).image == "pytorch:2"
