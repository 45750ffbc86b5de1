"""The journey that `trainmaster demo` takes through the product, on its real parts, as people would: Bob submits a
job with the browser's form and another through the SDK's client, compares, deploys and serves them."""

import re
import runpy
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import httpx

from platform_core.units import format_bytes, format_duration_ms
from trainmaster import bundle
from trainmaster.answers import Deployment, Job, Node
from trainmaster.client import Client, ClientError
from webapp.operations.cast import CAST
from webapp.operations.journey_serving import serve
from webapp.operations.programs import ROOT
from webapp.operations.traveller import JourneyFailedError, Traveller

EXAMPLE = ROOT / "examples" / "bytelm"
SUBMITTER = next(person for person in CAST if person.username == "bob")
FORM = {
    "team": "vision", "project": "byte models", "experiment": "bytelm", "command": "train.py", "purpose": "training",
    "strategy": "torchrun", "max_runtime_hours": "1",
    "checkpoint_interval_steps": "20", "checkpoint_keep_last": "2", "tags": "demo",
}  # fmt: skip
RANKS = 4
STEPS = "steps=100"
METRIC = "bits_per_byte"
LEARNT = 3.5  # bits per byte on held-out files; an untrained model needs 8


def travel(
    url: str,
    token: str,
    say: Callable[[str], None],
    scratch: Path,
    nodes: int,
    share: Callable[[str, int], object],
) -> None:
    """Submit, watch, compare, deploy; `say` gets a sentence for each step that succeeded.

    `share` gives the teams their quotas of the slots that these nodes have, where they have none yet.
    """
    try:
        with Client(url, token) as client:
            bob = Traveller(url, client, token, say)
            ready = bob.wait(
                "The start of all nodes", lambda: _ready(client), lambda ready: len(ready) >= nodes
            )
            gpu_type, slots = ready[0].gpu_type, sum(node.slots for node in ready)
            share(gpu_type, slots)
            _travel(bob, scratch, {"gpu_type": gpu_type, "num_gpus": str(min(RANKS, slots))})
    except ClientError as error:
        raise JourneyFailedError(str(error)) from error


def _ready(client: Client) -> list[Node]:
    return [node for node in client.nodes() if node.state == "ready" and node.slots]


def _travel(bob: Traveller, scratch: Path, slots: dict[str, str]) -> None:
    code = bob.client.upload("code", "vision", "bytelm", bundle.code_files(EXAMPLE))
    data = _dataset(bob, scratch)
    first = _submit_in_the_browser(
        bob, {**FORM, **slots, "name": "bytelm", "code": code, "dataset": data, "hyperparameters": STEPS}
    )
    _follow(bob, first)
    spec = dict(bob.client.job(first).spec)
    again = {**spec, "name": "bytelm-slow-rate", "hyperparameters": {**spec["hyperparameters"], "lr": 0.0003}}
    second = bob.client.submit(again, lineage=bundle.lineage(EXAMPLE), idempotency_key=str(uuid.uuid4())).id
    bob.tell(f"Submitted the same with a tenth of the learning rate through the SDK: {second}")
    _follow(bob, second)
    best = _compare(bob, [first, second])
    version = _deploy(bob, best)
    serve(bob, code, slots["gpu_type"], version, next(run for run in (first, second) if run != best))


def _dataset(bob: Traveller, scratch: Path) -> str:
    """The source files of Python's standard library, as a snapshot with its manifest."""

    collect = runpy.run_path(str(EXAMPLE / "prepare.py"))["collect"]  # the example's own script
    files = bundle.data_files(collect(scratch / "python-stdlib"))
    manifest = bob.client.upload("dataset", "vision", "python-stdlib", files)
    snapshot = bob.client.add_snapshot("python-stdlib", team="vision", manifest=manifest, purpose="training")
    size = sum(path.stat().st_size for _, path in files)
    bob.tell(
        f"Dataset snapshot {snapshot.id}: {len(files)} files of Python's standard library, {format_bytes(size)}"
    )
    return snapshot.id


def _submit_in_the_browser(bob: Traveller, fields: dict[str, str]) -> str:
    with httpx.Client(base_url=bob.url, follow_redirects=False, timeout=30) as browser:
        browser.headers["Referer"] = bob.url
        login = {"username": SUBMITTER.username, "password": SUBMITTER.password}
        _post(browser, "/login/", "/login/", login)
        answer = _post(browser, "/jobs/submit/", "/jobs/submit/", fields)
        location = answer.headers.get("Location", "")
        if answer.status_code != 302 or not (match := re.search(r"/jobs/(job-\w+)/", location)):
            problems = re.findall(r'class="problem"[^>]*>([^<]+)', answer.text)
            raise JourneyFailedError(f"The form was refused ({answer.status_code}): {'; '.join(problems)}")
        bob.tell(f"Submitted a job with the browser's form: {bob.url}{location}")
        return match[1]


def _post(browser: httpx.Client, page: str, target: str, fields: dict[str, str]) -> httpx.Response:
    """Send a page's form with its own hidden fields, as a browser does."""
    hidden = dict(re.findall(r'name="(csrfmiddlewaretoken|key)" value="([^"]+)"', browser.get(page).text))
    return browser.post(target, data={**hidden, **fields})


def _follow(bob: Traveller, job_id: str) -> None:
    def look() -> Job:
        return bob.client.job(job_id)

    submitted = time.monotonic()
    job = bob.wait("The start", look, lambda job: job.state != "pending")
    bob.tell(
        f"{job.name} waited {format_duration_ms((job.started_ms or 0) - (job.submitted_ms or 0))} for its slots"
    )
    job = bob.wait("The first step", look, lambda job: job.progress.get("step") or job.is_finished)
    bob.tell(
        f"First step {time.monotonic() - submitted:.1f} s after the submission, {job.num_gpus} ranks on {job.gpu_type}"
    )
    job = bob.wait("The training", look, lambda job: job.is_finished)
    if job.state != "succeeded":
        lines = [line.text for line in bob.client.logs(job_id).lines[-15:]]
        raise JourneyFailedError("\n".join([f"{job.name} {job.state}: {job.reason}", *lines]))
    reached = bob.client.metrics(job_id)["summary"][METRIC]["value"]
    bob.tell(
        f"{job.name} succeeded at step {job.progress['step']}: {reached:.3f} bits per byte on held-out files"
    )


def _compare(bob: Traveller, runs: list[str]) -> str:
    """The better run, which must have learnt; the page with both must exist."""
    reached = {run: bob.client.metrics(run)["summary"][METRIC]["value"] for run in runs}
    best = min(reached, key=lambda run: reached[run])
    if reached[best] >= LEARNT:
        raise JourneyFailedError(
            f"The better run reached {reached[best]:.3f} bits per byte; below {LEARNT} was due."
        )
    bob.tell(f"Compare them: {bob.url}/experiments/compare/?runs={','.join(runs)}")
    return best


def _deploy(bob: Traveller, run: str) -> int:
    """The number of the version."""
    checkpoint = bob.client.job(run).latest_checkpoint
    version = bob.client.register_version("bytelm", team="vision", checkpoint=checkpoint)
    bob.tell(f"Registered checkpoint {checkpoint} as bytelm version {version.version}")
    deployment = bob.client.deploy("vision/bytelm", version.version)

    def look() -> Deployment:
        return bob.client.deployment(deployment.id)

    ended: Deployment = bob.wait(
        "The deployment", look, lambda one: one.status in {"complete", "failed", "cancelled"}
    )
    if ended.status != "complete" or ended.workers_complete != ended.workers:
        raise JourneyFailedError(
            f"The deployment is {ended.status} on {ended.workers_complete} of {ended.workers} nodes."
        )
    bob.tell(f"Deployed to {ended.workers_complete} nodes, verified: {bob.url}/deployments/{ended.id}/")
    return version.version
