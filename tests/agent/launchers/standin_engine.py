"""A container engine without containers: `pull`, `image`, `run`, `inspect`, `stop`, `kill`, `rm`, as Docker does them.

It runs the command on this machine, with the mounted folders under their real paths. What it keeps of a real engine:
names are unique, the container outlives its starter, its processes die together, `inspect` tells how it ended,
variables come by `--env NAME` or `--env NAME=VALUE` and nothing else of the environment gets in.

    python standin_engine.py STATE_FOLDER run --detach --name NAME … IMAGE COMMAND…
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

STATE = Path(sys.argv[1])
WITH_VALUE = {
    "--name", "--label", "--network", "--ipc", "--ulimit", "--volume", "--workdir", "--memory", "--cpus",
    "--gpus", "--device", "--user", "--userns", "--env", "--time", "--type", "--format",
    "--security-opt", "--cap-drop",
}  # fmt: skip


def main() -> None:
    command, words = sys.argv[2], sys.argv[3:]
    options, rest = parse(words)
    verbs = {"run": run, "inspect": inspect, "stop": stop, "kill": kill, "rm": remove, "keep": keep}
    verbs |= {"pull": pull, "image": inspect_image}
    verbs[command](options, rest)


def parse(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("--"):
        word = words.pop(0)
        options.setdefault(word, []).append(words.pop(0) if word in WITH_VALUE else "")
    return options, words


def fail(sentence: str) -> None:
    print(f"Error response from daemon: {sentence}", file=sys.stderr)
    sys.exit(1)


def pull(options: dict[str, list[str]], rest: list[str]) -> None:
    if rest[0] == "missing:latest":
        fail("pull access denied for missing, repository does not exist")
    STATE.mkdir(exist_ok=True)
    with (STATE.parent / "pulled").open("a") as pulled:
        pulled.write(f"{rest[0]}\n")


def inspect_image(options: dict[str, list[str]], rest: list[str]) -> None:
    pulled = STATE.parent / "pulled"
    if not (pulled.exists() and rest[-1] in pulled.read_text().split()):
        fail(f"No such image: {rest[-1]}")


def run(options: dict[str, list[str]], rest: list[str]) -> None:
    image, *command = rest
    if image == "missing:latest":
        fail("pull access denied for missing, repository does not exist")
    name = options["--name"][0]
    folder = STATE / name
    STATE.mkdir(exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        fail(f'Conflict. The container name "/{name}" is already in use by container {name}.')
    mounts = [volume.split(":")[:2] for volume in options.get("--volume", [])]

    def outside(text: str) -> str:
        for source, target in mounts:
            text = text.replace(target, source) if text.startswith(target) or f"={target}" in text else text
        return text

    environment = {"PATH": os.environ["PATH"]}
    for given in options.get("--env", []):
        key, equals, value = given.partition("=")
        environment[key] = outside(value if equals else os.environ[key])
    order = {
        "command": [outside(word) for word in command],
        "cwd": outside(options["--workdir"][0]),
        "environment": environment,
    }
    save(
        folder,
        {"Status": "created", "Running": False, "Pid": 0, "ExitCode": 0, "OOMKilled": False, "Error": ""},
    )
    keeper = subprocess.Popen(
        [sys.executable, __file__, str(STATE), "keep", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert keeper.stdin is not None
    keeper.stdin.write(json.dumps(order).encode())  # not a file: even the stand-in keeps no secret on disk
    keeper.stdin.close()
    while load(folder)["Status"] == "created":
        time.sleep(0.01)
    print(name)


def keep(options: dict[str, list[str]], rest: list[str]) -> None:
    """The part of the engine that stays: parent of the container's processes, and their end."""
    folder = STATE / rest[0]
    order = json.loads(sys.stdin.read())
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    child = subprocess.Popen(
        order["command"],
        cwd=order["cwd"],
        env=order["environment"],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    save(folder, {**load(folder), "Status": "running", "Running": True, "Pid": child.pid})
    code = child.wait()
    for _ in range(200):
        children = psutil.Process().children(recursive=True)
        if not children:
            break
        for process in children:
            process.kill()
        psutil.wait_procs(children, timeout=0.1)
    save(
        folder,
        {**load(folder), "Status": "exited", "Running": False, "ExitCode": 128 - code if code < 0 else code},
    )


def inspect(options: dict[str, list[str]], rest: list[str]) -> None:
    folder = STATE / rest[0]
    if not folder.is_dir():
        print("[]")
        print(f"Error: No such container: {rest[0]}", file=sys.stderr)
        sys.exit(1)
    state = load(folder)
    if options["--format"][0] == "{{json .State}}":
        print(json.dumps(state))
    else:
        environment = psutil.Process(state["Pid"]).environ() if state["Running"] else {}
        print(json.dumps([f"{name}={value}" for name, value in environment.items()]))


def stop(options: dict[str, list[str]], rest: list[str]) -> None:
    signal_all(rest[0], signal.SIGTERM)
    deadline = time.monotonic() + float(options["--time"][0])
    while load(STATE / rest[0])["Running"]:
        if time.monotonic() > deadline:
            signal_all(rest[0], signal.SIGKILL)
        time.sleep(0.02)


def kill(options: dict[str, list[str]], rest: list[str]) -> None:
    signal_all(rest[0], signal.SIGKILL)


def signal_all(name: str, number: signal.Signals) -> None:
    """The first process only: it is for that one to tell the others, and for the engine to kill what is left."""
    state = load(STATE / name)
    if state["Running"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(state["Pid"], number)


def remove(options: dict[str, list[str]], rest: list[str]) -> None:
    folder = STATE / rest[0]
    if not folder.is_dir():
        fail(f"No such container: {rest[0]}")
    kill(options, rest)
    while load(folder)["Running"]:
        time.sleep(0.01)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def load(folder: Path) -> Any:
    return json.loads((folder / "state.json").read_text())


def save(folder: Path, state: dict[str, Any]) -> None:
    (folder / "state.json.new").write_text(json.dumps(state))
    os.replace(folder / "state.json.new", folder / "state.json")


if __name__ == "__main__":
    main()
