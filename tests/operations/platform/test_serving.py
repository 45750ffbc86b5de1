"""Endpoints for real: replicas as jobs on nodes, requests through the router, a killed replica, a new version."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from trainmaster.client import Client
from trainmaster_wire.inference.v2 import open_inference_pb2 as wire
from trainmaster_wire.inference.v2.open_inference_pb2_grpc import GRPCInferenceServiceStub
from webapp.operations.platform_process import PlatformProcess, training_process
from webapp.operations.state_folder import read_environment

PATIENCE = 300  # seconds, of every wait here: what takes ten on a quiet machine may need them on a busy one
PAUSE = 0.02  # seconds, of each caller between two requests: what starts beside them needs the processors
PUSHED = 10  # seconds, within which routers act on what they are told, also on a busy machine; it takes milliseconds
pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * PATIENCE)]
MODEL = """
class Model:
    def __init__(self, folder):
        pass

    def predict(self, rows):
        {body}
"""
GOOD, BAD = "return [sum(row) for row in rows]", "raise RuntimeError('not trained')"


class Load:
    """Callers in threads; what each answer was, by status and version."""

    def __init__(self, url: str, token: str, row: tuple[float, float] = (1, 2)) -> None:
        self.url, self.headers = f"{url}/predict", {"Authorization": f"Bearer {token}"}
        self.row = row
        self.answers: Counter[tuple[int, Any]] = Counter()
        self._stop, self._lock = threading.Event(), threading.Lock()

    @contextmanager
    def running(self, callers: int = 4) -> Iterator[Load]:
        threads = [threading.Thread(target=self._call) for _ in range(callers)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _call(self) -> None:
        with httpx.Client(timeout=PATIENCE, headers=self.headers, trust_env=False) as client:
            while not self._stop.is_set():
                try:
                    answer = client.post(self.url, json={"inputs": [self.row]})
                    what = answer.status_code, answer.json().get("version")
                except (httpx.HTTPError, ValueError) as error:
                    what = 0, repr(error)
                with self._lock:
                    self.answers[what] += 1
                self._stop.wait(PAUSE)

    def total(self) -> int:
        with self._lock:
            return sum(self.answers.values())

    @property
    def lost(self) -> dict[tuple[int, Any], int]:
        return {what: times for what, times in self.answers.items() if what[0] != 200}


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)
    return value


class Endpoint:
    """The endpoint of this test, over REST and through the router."""

    def __init__(self, client: Client, token: str, name: str, version: int, **fields: Any) -> None:
        self.client, self.token, self.name, self.path = client, token, name, f"endpoints/vision/{name}"
        body = {
            "name": name,
            "team": "vision",
            "model": "sums",
            "version": version,
            "gpu_type": "cpu",
            **fields,
        }
        self.address = client.call("POST", "endpoints", json=body)["address"]

    def read(self) -> Any:
        return self.client.call("GET", self.path)

    def is_ready(self, replicas: int, version: int) -> Callable[[], bool]:
        def ready() -> bool:
            seen = self.read()
            states = [(one["version"], one["state"]) for one in seen["replicas"]]
            return seen["state"] == "serving" and states.count((version, "ready")) == replicas == len(states)

        return ready

    def load(self) -> Load:
        return Load(self.address, self.token)

    def stop(self) -> None:
        """Until its name and its slots are free."""
        self.client.call("DELETE", self.path)
        until(lambda: self.name not in names(self.client), f"{self.name} is stopped")


def names(client: Client) -> list[str]:
    return [each["name"] for each in client.call("GET", "endpoints")["results"]]


@pytest.fixture(scope="module")
def client(
    serving: PlatformProcess, token: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    with Client(serving.url, token) as client:
        for number, body in enumerate((GOOD, GOOD, BAD), 1):
            file: Path = tmp_path_factory.mktemp(f"v{number}") / "model.py"
            file.write_text(MODEL.format(body=body))
            manifest = client.upload("model", "vision", "sums", [("model.py", file)])
            client.register_version("sums", team="vision", manifest=manifest)
        until(lambda: len(client.nodes()) == 2, "both nodes are there")
        yield client


@pytest.fixture(scope="module")
def endpoint(client: Client, token: str) -> Iterator[Endpoint]:
    """Serves version 1 or, later, 2."""
    endpoint = Endpoint(client, token, "sums", 1, min_replicas=2, max_replicas=2)
    try:
        until(endpoint.is_ready(2, 1), "two replicas are ready")
        yield endpoint
    finally:
        endpoint.stop()


def kill_a_replica(serving: PlatformProcess) -> None:
    for path in serving.folder.glob("agents/*/records/*/process.json"):
        process = training_process(path)
        for child in process.children(recursive=True) if process else ():
            if "trainmaster.serving" in child.cmdline():
                child.kill()
                return
    raise AssertionError("no replica runs")


def test_nothing_is_lost_when_a_replica_is_killed_and_when_versions_change(
    serving: PlatformProcess, endpoint: Endpoint
) -> None:
    old = endpoint.read()["version"]
    new = 3 - old
    with endpoint.load().running() as load:
        until(lambda: load.total() > 200, "requests are answered")
        kill_a_replica(serving)
        before = load.total()
        until(lambda: load.total() > before + 200, "requests are answered without it")
        until(endpoint.is_ready(2, old), "it was started again")

        change = {"version": new, "share_percent": 50, "watch_seconds": 2, "min_requests": 50}
        change |= {"max_latency_ratio": 100}
        endpoint.client.call("PUT", f"{endpoint.path}/version", json=change)
        until(endpoint.is_ready(2, new), "the new version took over")
        assert endpoint.read()["canary"] is None
        before = load.answers[200, str(new)]
        until(lambda: load.answers[200, str(new)] > before + 100, "the new version answers")
    assert load.lost == {}


def is_well(load: Load) -> bool:
    """Whether the next 300 requests are all answered."""
    lost, before = sum(load.lost.values()), load.total()
    until(lambda: load.total() > before + 300, "requests are answered")
    return sum(load.lost.values()) == lost


def test_a_canary_that_fails_is_rolled_back_by_itself(endpoint: Endpoint) -> None:
    with endpoint.load().running() as load:
        change = {"version": 3, "share_percent": 30, "watch_seconds": 600}
        endpoint.client.call("PUT", f"{endpoint.path}/version", json=change)
        until(lambda: load.lost, "the canary answers")
        until(lambda: endpoint.read()["canary"] is None, "it was rolled back")
        until(lambda: is_well(load), "the router was told and leaves the canary alone", PUSHED)
    assert "requests failed" in endpoint.read()["verdict"]
    assert set(load.lost) == {(500, None)}


def test_an_endpoint_that_scaled_to_zero_answers_its_first_request(client: Client, token: str) -> None:
    endpoint = Endpoint(client, token, "sleeper", 1, min_replicas=0, max_replicas=1)
    headers = {"Authorization": f"Bearer {token}"}

    def answered() -> httpx.Response | None:
        """None for as long as the router, which is told of new routes, has not read them."""
        url, body = f"{endpoint.address}/predict", {"inputs": [[4, 5]]}
        answer = httpx.post(url, json=body, headers=headers, timeout=PATIENCE)
        return None if answer.status_code == 404 else answer

    try:
        answer = until(answered, "the router knows it", PUSHED)
        assert answer.json() == {"outputs": [9], "version": "1"}
    finally:
        endpoint.stop()


def test_callers_who_ask_for_something_else_are_found(client: Client, token: str) -> None:
    endpoint = Endpoint(client, token, "sampled", 1, sample_percent=100)

    def drift() -> Any:
        return client.call("GET", f"{endpoint.path}/drift")

    def moved() -> set[str]:
        return {one["feature"] for one in drift()["findings"] if one["moved"]}

    try:
        until(endpoint.is_ready(1, 1), "its replica is ready")
        with Load(endpoint.address, token).running():
            until(lambda: drift()["findings"], "the first samples are compared with later ones")
        assert moved() == set()
        with Load(endpoint.address, token, (7, 2)).running():
            until(moved, "the drift is found")
        assert moved() == {"input[0]", "output"}
    finally:
        endpoint.stop()


def test_nobody_else_learns_that_it_exists(serving: PlatformProcess, endpoint: Endpoint) -> None:
    url = f"{endpoint.address}/predict"
    assert httpx.post(url, json={"inputs": [[1]]}).status_code == 401
    other = serving.manage("token", "carol", "nlp", "--name", "serving").split()[-1]
    stranger = {"Authorization": f"Bearer {other}"}
    assert httpx.post(url, json={"inputs": [[1]]}, headers=stranger).status_code == 404
    assert read_environment(serving.folder / "platform.env")["TRAINMASTER_ROUTER_URL"] in url


def test_grpc_goes_the_way_of_http(serving: PlatformProcess, endpoint: Endpoint) -> None:
    listen = read_environment(serving.folder / "platform.env")["TRAINMASTER_ROUTER_GRPC_LISTEN"]
    own = (("authorization", f"Bearer {endpoint.token}"),)
    request = wire.ModelInferRequest(model_name="vision/sums")
    tensor = request.inputs.add(name="x", datatype="FP64", shape=[1, 2])
    tensor.contents.fp64_contents.extend([1, 2])
    with grpc.insecure_channel(listen) as channel:
        stub = GRPCInferenceServiceStub(channel)
        assert stub.ServerReady(wire.ServerReadyRequest(), timeout=PATIENCE).ready
        ready = wire.ModelReadyRequest(name="vision/sums")
        assert stub.ModelReady(ready, metadata=own, timeout=PATIENCE).ready
        answer = stub.ModelInfer(request, metadata=own, timeout=PATIENCE)
        version = str(endpoint.read()["version"])
        assert (answer.model_name, answer.model_version) == ("vision/sums", version)
        assert list(answer.outputs[0].contents.fp64_contents) == [3.0]
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(request, timeout=PATIENCE)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelReady(wire.ModelReadyRequest(name="nlp/sums"), metadata=own, timeout=PATIENCE)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
