"""Carol is of another team: for her the work of vision is not there."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.people import People
from tests.e2e.site import Site
from trainmaster.client import ApiError, Client

ASK = """subjects => new Promise(resolve => {
  const socket = new WebSocket(`ws://${location.host}/ws/live/`), answers = {};
  socket.onopen = () => socket.send(JSON.stringify({join: subjects}));
  socket.onmessage = ({data}) => {
    const answer = JSON.parse(data);
    for (const word of ["joined", "refused"]) if (answer[word]) answers[answer[word]] = word;
    if (Object.keys(answers).length === subjects.length) { socket.close(); resolve(answers); }
  };
})"""


def test_an_outsider_sees_nothing_of_another_teams_work(people: People, site: Site) -> None:
    people.tolerate("status of 404")
    pages, lists, subjects, calls = traces(people.come("bob"), site)
    carol = people.come("carol")
    for address, name in lists.items():
        carol.goto(address)
        expect(carol.get_by_role("heading", level=1)).to_be_visible()
        assert name not in carol.locator("main").inner_text(), address
    for address in pages:
        answer = carol.goto(address)
        assert answer is not None
        assert (address, answer.status) == (address, 404)
    carol.goto("/")
    assert carol.evaluate(ASK, subjects) == dict.fromkeys(subjects, "refused")
    for method, *arguments in calls:
        assert refused(site.clients["carol"], method, *arguments) == 404, (method, arguments)
    for found in (
        site.clients["carol"].jobs(),
        site.clients["carol"].models(),
        site.clients["carol"].deployments(),
    ):
        assert list(found) == []


def traces(bob: Page, site: Site) -> tuple[list[str], dict[str, str], list[str], list[tuple[Any, ...]]]:
    """What vision has, and that a member of it sees each of these."""
    job = site.trained()
    site.bob.register_version("private", team="vision", checkpoint=job.latest_checkpoint)
    deployment = site.bob.deploy("vision/private", 1, nodes=[site.node_id("node-1")])
    bob.goto("/experiments/")
    experiment = bob.get_by_role("link", name="bytelm", exact=True).get_attribute("href")
    assert experiment
    pages = [
        *(f"/jobs/{job.id}/{rest}" for rest in ("", "?tab=logs", "log/", "log.txt")),
        f"/jobs/submit/?clone={job.id}",
        *(experiment, "/models/vision/private/", f"/deployments/{deployment.id}/", "/teams/vision/"),
        f"/deployments/{deployment.id}/chunks/",
    ]
    lists = {
        "/": job.name, "/jobs/": job.name, "/experiments/": "bytelm", f"/experiments/compare/?runs={job.id}": job.name,
        "/models/": "private", "/deployments/": "private", "/audit/": "bob",
    }  # fmt: skip
    subjects = [
        f"job:{job.id}",
        "jobs:vision",
        "team:vision",
        f"deployment:{deployment.id}",
        "deployments:vision",
    ]
    for address in pages:
        assert bob.request.get(address).status == 200, address
    bob.goto("/")
    assert bob.evaluate(ASK, subjects) == dict.fromkeys(subjects, "joined")
    calls = [*((verb, job.id) for verb in ("job", "cancel", "logs", "events", "checkpoints", "metrics"))]
    calls += [
        ("deployment", deployment.id),
        ("cancel_deployment", deployment.id),
        ("deploy", "vision/private", 1),
    ]
    return pages, lists, subjects, calls


def refused(client: Client, method: str, *arguments: Any) -> int:
    try:
        getattr(client, method)(*arguments)
    except ApiError as error:
        return error.status
    return 200
