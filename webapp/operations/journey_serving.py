"""The end of the journey: the better model completes texts behind an endpoint, and the other one is its canary."""

from typing import Any

import httpx

from trainmaster.endpoints import Endpoints
from webapp.operations.traveller import JourneyFailedError, Traveller

TEAM, NAME = "vision", "bytelm"
PROMPT = "def "
REQUESTS = 20  # that the canary has to answer before it is judged
CANARY = {"share_percent": 50, "watch_seconds": 5, "min_requests": REQUESTS, "max_latency_ratio": 20}


def serve(bob: Traveller, code: str, gpu_type: str, version: int, other_run: str) -> None:
    """Endpoint, text, canary, verdict. The page stays for those who want to watch or complete texts there."""
    endpoints = Endpoints(bob.client)
    _make_way(bob, endpoints)
    bob.client.call("POST", "endpoints", json={
        "name": NAME, "team": TEAM, "model": "bytelm", "version": version, "runtime": "python", "entry": "serve:Model",
        "code": code, "gpu_type": gpu_type, "min_replicas": 1, "max_replicas": 1, "memory_per_gpu": "1GiB",
    })  # fmt: skip
    page = f"{bob.url}/serving/{TEAM}/{NAME}/"
    bob.tell(f"Serve version {version}: {page}")
    bob.wait("The endpoint", lambda: endpoints.show(TEAM, NAME).state, lambda state: state == "serving")
    with httpx.Client(timeout=120, trust_env=False) as caller:
        text = _complete(bob, caller)
        bob.tell(f"It completes {PROMPT!r} to {PROMPT + text!r}")
        checkpoint = bob.client.job(other_run).latest_checkpoint
        second = bob.client.register_version("bytelm", team=TEAM, checkpoint=checkpoint)
        endpoints.change(TEAM, NAME, second.version, **CANARY)
        bob.tell(f"Version {second.version} is its canary for half of the requests; watch it there")

        def judged() -> Any:
            _complete(bob, caller)
            return endpoints.show(TEAM, NAME)

        ended = bob.wait("The canary", judged, lambda seen: seen.canary is None)
    verdict = bob.client.call("GET", f"endpoints/{TEAM}/{NAME}")["verdict"]
    bob.tell(f"Version {ended.version} answers: {verdict}")


def _make_way(bob: Traveller, endpoints: Endpoints) -> None:
    """Stops the endpoint of an earlier journey in the same folder."""

    def left() -> bool:
        return any((one.team, one.name) == (TEAM, NAME) for one in endpoints.list())

    if left():
        endpoints.stop(TEAM, NAME)
        bob.wait("The end of the endpoint of the last start", left, lambda one: not one)


def _complete(bob: Traveller, caller: httpx.Client) -> str:
    address = bob.client.call("GET", f"endpoints/{TEAM}/{NAME}")["address"]
    body = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0.7}
    headers = {"Authorization": f"Bearer {bob.token}"}
    answer = caller.post(f"{address}/v1/completions", json=body, headers=headers)
    if answer.status_code != 200:
        raise JourneyFailedError(f"The endpoint answered {answer.status_code}: {answer.text[:500]}")
    return str(answer.json()["choices"][0]["text"])
