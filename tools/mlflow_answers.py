"""Records what a real MLflow server of the pinned version answers to the scenarios of the differential tests.

A scenario is a text file of requests, one a line: METHOD ADDRESS {BODY} | SELECTION -> NAME=PATH,NAME=PATH

- ADDRESS is below /api/2.0/mlflow/ unless it begins with a slash. BODY is YAML in flow style; it travels as JSON, or as
  the query of a GET. A body that is text is sent as it is.
- `$NAME` is what an earlier answer had at PATH, such as run.info.run_id. `~x*300~` is 300 times x.
- SELECTION keeps of an answer what is compared, to hold the records small: `runs.*.info.run_name` of each run its name.
- `{$each: [...]}` as the value of a field makes one request of each.

`python -m tools.mlflow_answers` starts one server for each scenario (half a minute each) and writes the answers; names
of scenarios choose some of them.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from tools import mlflow_venv

ROOT = Path(__file__).resolve().parent.parent / "tests" / "webapp" / "mlflow"
SCENARIOS, ANSWERS = ROOT / "scenarios", ROOT / "answers"
SECONDS_TO_START = 300
_LINE = re.compile(
    r"(?P<method>[A-Z]+) (?P<address>\S+)(?: (?P<body>.*?))?(?: \| (?P<selection>\S+))?(?: -> (?P<captures>\S+))?"
)
_REPEATED = re.compile(r"~(.)\*(\d+)~")
_LONG = re.compile(r"(.)\1{39,}")
_NAME = re.compile(r"\$(\w+)")
_HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_RANDOM_NAME = re.compile(r"[a-z]+-[a-z]+-\d{1,4}")
_TIMES = re.compile(r".*(?:time|timestamp|timestamp_ms|Time)")
_YEAR_2020_MS = 1_577_836_800_000
Answer = tuple[int, Any]  # status and the body: JSON, or text with its media type
Send = Callable[
    [str, str, Any], tuple[int, str, bytes]
]  # method, address, body → status, media type, content


@dataclass(slots=True)
class Request:
    method: str
    address: str
    body: Any
    captures: dict[str, str] = field(default_factory=dict)
    selection: str = ""

    @property
    def label(self) -> str:
        body = "" if self.body is None else f" {json.dumps(self.body, ensure_ascii=False)}"
        return _shortened(f"{self.method} {self.address}{body}")


def requests_of(scenario: Path) -> Iterator[Request]:
    for line in scenario.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{scenario.name}: this is no request: {line}")
        captures = dict(pair.split("=") for pair in (match["captures"] or "").split(",") if pair)
        for body in _each(yaml.safe_load(match["body"]) if match["body"] else None):
            yield Request(match["method"], match["address"], body, captures, match["selection"] or "")


def _each(body: Any) -> Iterator[Any]:
    for name, value in body.items() if isinstance(body, dict) else ():
        if isinstance(value, dict) and "$each" in value:
            for chosen in value["$each"]:
                yield from _each({**body, name: chosen})
            return
    yield body


def replay(scenario: Path, send: Send) -> Iterator[tuple[str, int, Any]]:
    """Label, status and normalised body of each answer."""
    known: dict[str, str] = {}
    for request in requests_of(scenario):
        address = _filled(request.address, known)
        if not address.startswith("/"):
            address = f"/api/2.0/mlflow/{address}"
        status, media_type, content = send(request.method, address, _filled(request.body, known))
        body = _decoded(media_type, content)
        for name, path in request.captures.items():
            known[name] = str(_at(body, path))
        yield request.label, status, _selected(normalised(body, known), request.selection)


def _filled(value: Any, known: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {_filled(key, known): _filled(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, known) for inner in value]
    if not isinstance(value, str):
        return value
    value = _NAME.sub(lambda match: known.get(match[1], match[0]), value)
    return _REPEATED.sub(lambda match: match[1] * int(match[2]), value)


def _at(body: Any, path: str) -> Any:
    for part in path.split("."):
        body = body[int(part)] if isinstance(body, list) else body[part]
    return body


def _selected(body: Any, path: str) -> Any:
    """The whole body where it has nothing of the kind, such as an error."""
    first, _, rest = path.partition(".")
    if first == "*":
        return [_selected(item, rest) for item in body]
    if first == "" or first not in body:
        return body
    return {first: _selected(body[first], rest)} if "*" in rest else _selected(body[first], rest)


def _decoded(media_type: str, content: bytes) -> Any:
    kind = media_type.partition(";")[0]
    if kind == "application/json":
        return json.loads(content) if content else {}
    text = content.decode(errors="replace")
    return {"type": kind, "text": text if kind != "text/html" else ""}


def normalised(body: Any, known: Mapping[str, str], key: str = "") -> Any:
    """Without what no two servers share: ids, times, names that the server has chosen."""
    if isinstance(body, dict):
        return {
            name: normalised(value, known, f"{key}.{name}" if key == "data" else name)
            for name, value in body.items()
        }
    if isinstance(body, list):
        values = [normalised(value, known, key) for value in body]
        return sorted(values, key=lambda v: json.dumps(v, sort_keys=True)) if key in UNORDERED else values
    if isinstance(body, int) and body > _YEAR_2020_MS:
        return "<time>"
    if not isinstance(body, str):
        return body
    if _TIMES.fullmatch(key) and body.isdigit() and int(body) > _YEAR_2020_MS:
        return "<time>"
    if key in ("run_name", "runName", "name", "value") and _RANDOM_NAME.fullmatch(body):
        return "<name>"
    if key in ("next_page_token", "nextPageToken"):
        return "<token>"
    return _shortened(_without_ids(body, known, key))


UNORDERED = frozenset(
    {"data.metrics", "data.tags", "data.params", "tags", "params", "latest_versions", "aliases"}
)


def _without_ids(text: str, known: Mapping[str, str], key: str) -> str:
    for name, value in known.items():
        if not value.isdigit():
            text = text.replace(value, f"<{name}>")
            continue
        if key in ("experiment_id", "experimentId", "experiment_ids") and text == value:
            return f"<{name}>"
        begin = r"(?:mlflow-artifacts:/|/|id=|ID |id |experiment |[Ee]xperiment with (?:id|ID)[= ])"
        text = re.sub(rf"({begin}['\"]?){value}(?![\w.])", rf"\g<1><{name}>", text)
    return _HEX.sub("<id>", text)


def _shortened(text: str) -> str:
    return _LONG.sub(lambda match: f"~{match[1]}*{len(match[0])}~", text)


def recorded(scenario: Path) -> list[tuple[str, int, Any]]:
    lines = (ANSWERS / f"{scenario.stem}.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)) for line in lines]  # type: ignore[misc]


def record(scenario: Path) -> None:
    with server() as address, httpx.Client(base_url=address, timeout=120) as client:
        answers = list(replay(scenario, sender(client)))
    ANSWERS.mkdir(exist_ok=True)
    lines = (
        json.dumps(answer, ensure_ascii=False, separators=(",", ":"), sort_keys=True) for answer in answers
    )
    (ANSWERS / f"{scenario.stem}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def sender(client: httpx.Client) -> Send:
    def send(method: str, address: str, body: Any) -> tuple[int, str, bytes]:
        options: dict[str, Any] = {"json": body}
        if method == "GET":
            options = {"params": body or {}}
        elif isinstance(body, str):
            options = {"content": body.encode(), "headers": {"Content-Type": content_type(body)}}
        response = client.request(method, address, **options)
        return response.status_code, response.headers.get("Content-Type", ""), response.content

    return send


def content_type(body: Any) -> str:
    """Text that does not begin as JSON is the content of a file."""
    is_json = not isinstance(body, str) or body[:1] in '{["n'
    return "application/json" if is_json else "application/octet-stream"


ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "GIT_PYTHON_REFRESH": "quiet",
    "CUDA_VISIBLE_DEVICES": "",
}


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a real MLflow server with an empty database of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(mlflow_venv.ensure()), "-m", "mlflow", "server", "--backend-store-uri", "sqlite:///peer.db",
        "--artifacts-destination", "./artifacts", "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **ENVIRONMENT}, stdout=log, stderr=log
        )
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=60).status_code == 200:
                return
        time.sleep(0.2)  # the server says nothing when it is ready
    raise RuntimeError("the MLflow server did not start")


def scenarios(names: list[str]) -> list[Path]:
    return sorted(path for path in SCENARIOS.glob("*.txt") if not names or path.stem in names)


if __name__ == "__main__":
    for scenario in scenarios(sys.argv[1:]):
        record(scenario)
        print(f"{scenario.stem}: {len(recorded(scenario))} answers")
