"""Recorded rounds, forecasts and the order of the queue, on a cluster of four nodes of two slots."""

import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from platform_core.jobs.job import MemberPhase
from platform_core.scheduling.decisions import StopKind
from platform_core.units import HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, state, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base import lease
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.nodes.models import Node
from webapp.pages.queue import views
from webapp.quotas.models import Quota
from webapp.scheduling import predictions, queries, rounds, services, tasks
from webapp.scheduling.models import Prediction, Round
from webapp.scheduling.predictions import rest_s

KEPT = r'nodes reserved on <a href="/nodes/map/\?gpu_type=cpu">([^<]*)</a>'
pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
Browser = Callable[[User], Client]


@pytest.fixture
def submit(owner: User) -> Submit:
    def submit(name: str, num_gpus: int, **changes: Any) -> Job:
        mapping = {**SPEC, "name": name, "num_gpus": num_gpus, **changes}
        return jobs.submit(actor_of(owner), mapping)[0]

    return submit


@pytest.fixture
def full(submit: Submit) -> tuple[Job, Job]:
    """One job holds all eight slots, the next waits."""
    running = submit("running", 8, max_runtime_hours=2)
    tick()
    say(running, MemberPhase.RUNNING)
    return running, submit("next", 4)


def replayed(*arguments: str) -> str:
    out = StringIO()
    call_command("replay_round", *arguments, stdout=out)
    return out.getvalue()


def test_a_round_that_starts_somebody_can_be_made_again_to_the_byte(full: tuple[Job, Job]) -> None:
    tick()  # changes nothing, so it is not kept
    assert Round.objects.count() == 1
    row = Round.objects.get()
    assert (row.pending, row.started, row.preempted) == (1, 1, 0)
    assert rounds.replay(row).same
    assert "the same to the byte" in replayed()
    assert replayed() == replayed(str(row.id))


def test_a_decision_that_differs_is_shown(full: tuple[Job, Job], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = rounds.plan
    monkeypatch.setattr(rounds, "plan", lambda snapshot, policy: type(plan(snapshot, policy))((), (), ()))
    with pytest.raises(CommandError, match="Made again, it differs as shown"):
        replayed()


def test_a_round_that_is_not_kept_is_said_so(full: tuple[Job, Job]) -> None:
    first = Round.objects.get().id
    with pytest.raises(
        CommandError, match=f"no round 99999999 is recorded: those kept go from {first} to {first}"
    ):
        replayed("99999999")


def test_a_waiting_job_is_told_when_it_should_start_and_the_word_is_judged(full: tuple[Job, Job]) -> None:
    running, waiting = full
    tick()
    predictions.predict()
    told = Prediction.objects.get()
    assert told.job_id == waiting.id
    minutes = [round((at_ms - told.made_ms) / 60_000) for at_ms in (told.early_ms, told.late_ms or 0)]
    assert minutes == [36, 120], "30 % of two hours until some have ended, and the whole of them"
    assert re.fullmatch("in .* to .*", queries.starts([waiting.id], now_ms())[waiting.id])
    say(running, MemberPhase.EXITED, 0)
    tick()
    assert state(waiting) == "scheduled"
    assert queries.starts([waiting.id], now_ms()) == {}
    judged = queries.judged()
    assert [start.came for start in judged.values()] == ["earlier"]
    assert judged[waiting.id].told_ms == told.made_ms


def test_its_page_tells_its_start_once_from_its_kept_place_until_there_is_a_forecast(
    full: tuple[Job, Job], browser: Browser, owner: User
) -> None:
    def expected_starts(address: str) -> list[str]:
        page = re.sub(r"</?a\b[^>]*>", "", browser(owner).get(address).content.decode())
        return re.findall(r"Expected start ([^.<]*)\.", page)

    waiting = full[1]
    Quota.objects.update(maximum=16)
    tick()
    page = f"/jobs/{waiting.id}/"
    [reserved] = expected_starts(page)
    assert re.fullmatch("in about (2 h|1 h 50 min)", reserved)
    assert "Nodes are reserved for it:" in browser(owner).get(page).content.decode()
    assert "in about" in browser(owner).get("/queue/").content.decode()
    predictions.predict()
    assert expected_starts(page) == [queries.starts([waiting.id], now_ms())[waiting.id]]


def test_one_that_waits_again_is_told_anew_and_only_its_first_start_is_judged(
    full: tuple[Job, Job], submit: Submit
) -> None:
    running, waiting = full
    tick()
    predictions.predict()
    say(running, MemberPhase.EXITED, 0)
    tick()
    first = Prediction.objects.get(job_id=waiting.id)
    say(waiting, MemberPhase.RUNNING)
    Job.objects.filter(id=waiting.id).update(spec={**waiting.spec, "preemptible": True}, priority=60)
    jobs.preempt(waiting.id, jobs.Preemption(StopKind.EVICTED, "others need it"), now_ms())
    say(waiting, MemberPhase.EXITED, 0)
    Quota.objects.update(guaranteed=0)
    submit("other", 8)
    tick()
    assert state(waiting) == "preempted"
    assert queries.starts([waiting.id], now_ms()) == {}, "what was told before it started is over"
    predictions.predict()
    assert queries.starts([waiting.id], now_ms())[waiting.id].startswith("in ")
    assert Prediction.objects.get(job_id=waiting.id).started_ms == first.started_ms


def test_one_that_goes_out_of_sight_is_told_nothing_but_judged_by_what_it_was_first_told(
    full: tuple[Job, Job],
) -> None:
    waiting = full[1]
    predictions.predict()
    first = Prediction.objects.get()
    Quota.objects.update(guaranteed=0, maximum=3)
    predictions.predict()
    assert queries.starts([waiting.id], now_ms()) == {}
    Quota.objects.update(maximum=16)
    predictions.predict()
    assert queries.starts([waiting.id], now_ms())[waiting.id].startswith("in ")
    again = Prediction.objects.get()
    assert (again.made_ms, again.early_ms, again.late_ms) == (first.made_ms, first.early_ms, first.late_ms)


def test_forecasts_are_made_by_one_at_a_time_and_seldom_where_they_take_long(full: tuple[Job, Job]) -> None:
    cache.add(predictions.BUSY, 1, timeout=60)
    predictions.predict()
    assert not Prediction.objects.exists(), "another worker makes them"
    cache.delete(predictions.BUSY)
    predictions.predict()
    assert Prediction.objects.exists()
    assert (rest_s(0.1), rest_s(50.0)) == (0, 200)


def test_the_queue_shows_the_order_and_names_only_to_those_who_may_know_them(
    full: tuple[Job, Job], browser: Browser, owner: User, outsider: User
) -> None:
    tick()
    predictions.predict()
    mine = browser(owner).get("/queue/").content.decode()
    assert '<h1 class="headline">1 job pending</h1>' in mine
    assert "It needs 4 slots; none is free." in mine
    assert ">next<" in mine
    assert queries.starts([full[1].id], now_ms())[full[1].id] in mine
    others = browser(outsider).get("/queue/").content.decode()
    assert "a job of vision" in others
    assert ">next<" not in others
    assert full[1].id not in others


def test_beyond_the_lines_that_are_shown_all_who_wait_are_counted(
    full: tuple[Job, Job], submit: Submit, browser: Browser, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick()
    last = submit("last", 8)
    Job.objects.filter(id=last.id).update(waiting_since_ms=now_ms() - 3 * HOUR_MS, queue_position=9)
    monkeypatch.setattr(views, "MOST", 1)
    page = browser(owner).get("/queue/")
    assert ">last<" not in page.content.decode()
    assert "1 more job pending" in page.content.decode()
    assert (page.context["headline"], page.context["figures"][0].value) == ("2 jobs pending", "3 h")
    assert page.context["sentence"].startswith("They need 12 slots;")


def test_a_lead_changes_the_order_and_it_is_written_down(
    full: tuple[Job, Job], submit: Submit, browser: Browser, lead: User
) -> None:
    urgent = submit("urgent", 8)
    tick()
    assert Job.objects.get(id=urgent.id).queue_position == 2
    answer = browser(lead).post(f"/queue/{urgent.id}/priority/", {"priority": "20"})
    assert answer.status_code == 302
    tick()
    assert Job.objects.get(id=urgent.id).queue_position == 1
    event = Event.objects.get(kind="PriorityChanged")
    assert (event.actor, event.cause) == ("user:lena", "from 50 to 20")


@pytest.mark.parametrize("priority", ["101", "-1", "x", "", "9" * 12])
def test_a_priority_out_of_range_is_refused(
    full: tuple[Job, Job], browser: Browser, lead: User, priority: str
) -> None:
    answer = browser(lead).post(f"/queue/{full[1].id}/priority/", {"priority": priority})
    assert answer.status_code == 400
    assert Job.objects.get(id=full[1].id).priority == 50


@pytest.mark.parametrize(
    "body", [{}, {"priority": True}, {"priority": 5, "name": "x"}, {"priority": "5"}, [5]]
)
def test_over_rest_only_the_priority_can_be_changed(
    full: tuple[Job, Job], api: Callable[..., APIClient], lead: User, body: Any
) -> None:
    address = f"/api/v1/training-jobs/{full[1].id}"
    assert api(lead).patch(address, body, format="json").status_code == 400
    assert api(lead).patch(address, {"priority": 20}, format="json").json()["priority"] == 20


def test_a_job_that_has_ended_keeps_its_priority(
    full: tuple[Job, Job], api: Callable[..., APIClient], lead: User
) -> None:
    jobs.cancel(actor_of(lead), full[1].id)
    answer = api(lead).patch(f"/api/v1/training-jobs/{full[1].id}", {"priority": 20}, format="json")
    assert answer.status_code == 400
    assert "the job has ended: cancelled" in answer.content.decode()


def test_while_a_round_is_made_its_own_process_makes_no_other(
    full: tuple[Job, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a container that happens to have the same host name and process id."""
    led: list[bool] = []
    monkeypatch.setattr(services, "_round", lambda leadership: led.append(services.tick()))
    assert services.tick()
    assert led == [False]


def test_a_hint_gives_up_quietly_while_somebody_else_holds_the_lease() -> None:
    leader = lease.acquire("scheduler", "another-machine:1")
    assert leader is not None
    assert tasks.tick.apply(retries=10).successful()
    lease.release(leader)
    assert lease.acquire("scheduler", "this-machine:1") is not None


def test_the_nodes_of_a_kept_place_are_named_to_those_who_may_see_the_job(
    submit: Submit, browser: Browser, owner: User, outsider: User, cluster: list[Node]
) -> None:
    Quota.objects.update(maximum=16)
    submit("holds-a-slot", 1)
    tick()
    gang = submit("needs-all", 8)
    tick()
    queue, page = browser(owner).get("/queue/"), browser(owner).get(f"/jobs/{gang.id}/")
    names = sorted(node.hostname for node in cluster)
    assert (told := re.search(KEPT, queue.content.decode()))
    assert re.fullmatch(r"(node-\d, ){2}node-\d and 1 more", told[1])
    assert set(re.findall(r"node-\d", told[1])) < set(names)
    assert f">{told[1]}</a>." in page.content.decode()
    others = browser(outsider).get("/queue/").content.decode()
    assert "nodes reserved</div>" in others
    assert "node-" not in others[others.index("nodes reserved") :].split("</tr>")[0]


def test_a_kept_place_that_moves_is_told_anew_and_one_that_is_taken_no_more(
    submit: Submit, cluster: list[Node]
) -> None:
    Quota.objects.update(maximum=16)
    submit("holds", 2)
    tick()
    gang = submit("needs-all", 8)
    tick()
    before = Job.objects.get(id=gang.id)
    assert set(before.wait_place) == {node.id for node in cluster}
    Job.objects.filter(id=gang.id).update(wait_place=before.wait_place[:2])  # as it was told of another place
    tick()
    assert Job.objects.get(id=gang.id).wait_place == before.wait_place
    jobs.cancel(actor_of(User.objects.get(username="alice")), Job.objects.get(name="holds").id)
    say(Job.objects.get(name="holds"), MemberPhase.EXITED, 0)
    tick()
    assert (state(gang), Job.objects.get(id=gang.id).wait_place) == ("scheduled", [])
