"""What is held and not used, and the report on the week of the cluster."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core import mail
from django.test import Client

from platform_core.jobs.job import MemberPhase
from platform_core.units import HOUR_MS, MINUTE_MS
from tests.webapp.jobs.conftest import SPEC, say, tick
from webapp.accounts import mailing
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.experiments.models import Run
from webapp.jobs import idle_policy
from webapp.jobs import services as jobs
from webapp.jobs.models import Job, UtilisationSample
from webapp.nodes.models import Node
from webapp.pages.report import report
from webapp.quotas.models import LedgerEntry, Price, Quota
from webapp.scheduling.models import Receipt

Browser = Callable[[User], Client]
HALF_HOUR_MS = 30 * MINUTE_MS


def submit(who: User, name: str, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "name": name, **changes})[0]


@pytest.fixture
def running(cluster: list[Node], owner: User) -> Job:
    """All eight slots are its own."""
    job = submit(owner, "sleeper", num_gpus=8)
    tick()
    say(job, MemberPhase.RUNNING)
    return Job.objects.get(id=job.id)


def told(job: Job) -> list[str]:
    return list(Event.objects.filter(kind="SlotsIdle", subject_id=job.id).values_list("cause", flat=True))


def test_a_job_that_idles_is_warned_of_once(running: Job) -> None:
    now = now_ms()
    idle_policy.keep_utilisation({running.id: 0.01}, now)
    idle_policy.deal_with_idle(now + HALF_HOUR_MS - 1)
    assert told(running) == []
    for _ in range(2):
        idle_policy.deal_with_idle(now + HALF_HOUR_MS)
    assert told(running) == ["its 8 slots of cpu have been below 5 % for 30 min"]


def test_one_that_works_again_is_forgiven(running: Job) -> None:
    now = now_ms()
    idle_policy.keep_utilisation({running.id: 0.01}, now)
    idle_policy.keep_utilisation({running.id: 0.80}, now + MINUTE_MS)
    idle_policy.keep_utilisation({running.id: 0.02}, now + 2 * MINUTE_MS)
    assert idle_policy.idle(now + HALF_HOUR_MS) == []
    assert [job.id for job in idle_policy.idle(now + 2 * MINUTE_MS + HALF_HOUR_MS)] == [running.id]


@pytest.mark.parametrize(
    ("reclaim", "preemptible", "somebody_waits", "stopped"),
    [
        (True, True, True, "preempt"),
        (False, True, True, "none"),
        (True, False, True, "none"),
        (True, True, False, "none"),
    ],
)
def test_idle_slots_are_taken_back_where_that_is_wanted_and_of_use(
    running: Job,
    owner: User,
    settings: Any,
    reclaim: bool,
    preemptible: bool,
    somebody_waits: bool,
    stopped: str,
) -> None:
    settings.IDLE_RECLAIM = reclaim
    Job.objects.filter(id=running.id).update(spec={**running.spec, "preemptible": preemptible})
    if somebody_waits:
        submit(owner, "next", num_gpus=2)
    now = now_ms()
    idle_policy.keep_utilisation({running.id: 0.0}, now)
    for at_ms in (HALF_HOUR_MS, HALF_HOUR_MS + MINUTE_MS, 2 * HALF_HOUR_MS):
        idle_policy.deal_with_idle(now + at_ms)
    assert Job.objects.get(id=running.id).stop == stopped
    assert Receipt.objects.exists() == (stopped == "preempt")


def test_what_was_lost_by_taking_idle_slots_back_and_for_whom_stands_in_a_receipt(
    running: Job, owner: User, settings: Any
) -> None:
    settings.IDLE_RECLAIM = True
    began = now_ms()
    Job.objects.filter(id=running.id).update(
        spec={**running.spec, "preemptible": True}, started_ms=began, idle_since_ms=began, idle_told=True
    )
    submit(owner, "later", num_gpus=2, priority=60)
    first = submit(owner, "first", num_gpus=2, priority=50)
    tick()
    for _ in range(2):
        idle_policy.deal_with_idle(began + HOUR_MS)
    receipt = Receipt.objects.get()
    assert (receipt.job_id, receipt.for_job, receipt.kind) == (running.id, first.id, "idle")
    assert receipt.lost_gpu_ms == 8 * (HOUR_MS + MINUTE_MS)  # all since its start, and the resume
    (event,) = Event.objects.filter(kind="PreemptRequested", subject_id=running.id)
    assert event.cause.endswith(f"below 5 % for 1 h; {first.id} of vision waits for them")


@pytest.mark.parametrize(
    ("reclaim", "preemptible", "idle_ms", "told"),
    [
        (False, True, HALF_HOUR_MS, ""),
        (True, False, HALF_HOUR_MS, "keeps its slots: it is not preemptible"),
        (True, True, HALF_HOUR_MS, "gives its slots up in 30 min, if others wait for them"),
        (True, True, 2 * HALF_HOUR_MS, "gives its slots up as soon as others wait for them"),
    ],
)
def test_the_report_tells_what_follows_from_idling(
    running: Job,
    settings: Any,
    browser: Browser,
    owner: User,
    reclaim: bool,
    preemptible: bool,
    idle_ms: int,
    told: str,
) -> None:
    settings.IDLE_RECLAIM = reclaim
    now = now_ms()
    Job.objects.update(spec={**running.spec, "preemptible": preemptible}, idle_since_ms=now - idle_ms)
    (line,) = report.make(None, now).idle
    assert line["follows"] == told
    page = browser(owner).get("/report/").content.decode()
    assert (told.partition(" in ")[0] in page) if told else "gives its slots up" not in page


def test_a_moment_in_which_nothing_was_measured_says_nothing_of_how_busy_it_was(db: None) -> None:
    now = now_ms()
    for number, (held, busy) in enumerate([(8, None), (2, 0.5), (0, None)]):
        UtilisationSample.objects.create(
            at_ms=now - number, gpu_type="cpu", slots=8, held=held, utilisation=busy, queued_jobs=0
        )
    (cpu,) = report.make(None, now + 1).types
    assert (round(cpu.held or 0, 1), cpu.busy) == (41.7, 50.0)


def test_jobs_that_still_wait_for_their_first_start_are_told_beside_the_waits(
    running: Job, owner: User, browser: Browser, settings: Any
) -> None:
    patient = submit(owner, "patient", num_gpus=4)
    Job.objects.filter(id=patient.id).update(submitted_ms=now_ms() - 100 * HOUR_MS)
    made = report.make(None, now_ms())
    assert [each.label for each in made.waits] == ["2 to 8"]
    ((label, count, longest_ms),) = [(each.label, each.jobs, each.longest_ms) for each in made.unstarted]
    assert (label, count, longest_ms // HOUR_MS) == ("2 to 8", 1, 100)
    page = browser(owner).get("/report/").content.decode()
    assert "they still wait for their first start: 1 of 2 to 8 slots, the longest for 4 d" in page
    settings.REPORT_RECIPIENTS = ["ops@example.org"]
    settings.MAIL_URL = "smtp://mail.example.org:25"
    report.mail()
    mailing.deliver()
    assert (
        "2 to 8 slots, waiting for the first start and not counted: 1, the longest for 4 d"
        in mail.outbox[0].body
    )


def week(running: Job, quota: Callable[..., Quota], nlp: Any) -> int:
    """An hour in which eight slots were held and half used; the other team used nothing of its two."""
    now = now_ms() + HOUR_MS
    quota(nlp, guaranteed=2, maximum=2)
    LedgerEntry.objects.update(started_ms=now - HOUR_MS, micro_dollars_per_hour=1_000_000)
    UtilisationSample.objects.create(
        at_ms=now - 5, gpu_type="cpu", slots=8, held=8, utilisation=0.5, queued_jobs=0
    )
    UtilisationSample.objects.create(
        at_ms=now - 4, gpu_type="cpu", slots=8, held=4, utilisation=0.3, queued_jobs=0
    )
    idle_policy.keep_utilisation({running.id: 0.0}, now - HALF_HOUR_MS)
    failed = [{"node": Node.objects.get(hostname="node-0").id, "at_ms": now - 9}]
    Job.objects.filter(id=running.id).update(failures=failed)
    return now


def test_the_report_adds_up_what_was_held_used_and_waited_for(
    running: Job, quota: Callable[..., Quota], nlp: Any
) -> None:
    now = week(running, quota, nlp)
    made = report.make(None, now)
    (cpu,) = made.types
    # Half of eight and 0.3 of four: a moment in which little is held says little.
    assert (cpu.gpu_type, cpu.held, round(cpu.busy or 0, 1)) == ("cpu", 75.0, 43.3)
    assert [(each.label, each.jobs) for each in made.waits] == [("2 to 8", 1)]
    vision, other = made.teams
    assert (vision.team, vision.gpu_ms, vision.micro_dollars) == ("vision", 8 * HOUR_MS, 8_000_000)
    assert (other.team, other.gpu_ms, other.percent, other.under_used) == ("nlp", 0, 0.0, True)
    assert made.failures == (("node-0", 1),)
    assert [(each["name"], each["idle_ms"]) for each in made.idle] == [("sleeper", HALF_HOUR_MS)]


def test_what_nobody_held_what_waits_and_the_mfu_of_each_team_are_told(
    running: Job, owner: User, quota: Callable[..., Quota], nlp: Any, settings: Any
) -> None:
    now = week(running, quota, nlp)
    Price.objects.create(gpu_type="cpu", micro_dollars_per_hour=6_000_000)
    Run.objects.filter(job=running.id).update(mfu=0.42)
    submit(owner, "patient", num_gpus=4, max_runtime_hours=3)
    made = report.make(None, now)
    told = {each.label: each.value for each in made.figures}
    # Four slots for one sample of 15 s, at $6 an hour.
    assert (told["MFU"], told["Unallocated capacity"]) == ("42 %", "$0.10")
    vision, other = made.teams
    assert (vision.mfu, vision.waiting_gpu_ms) == (42.0, 12 * HOUR_MS)
    assert (other.mfu, other.waiting_gpu_ms) == (None, 0)
    settings.REPORT_RECIPIENTS = ["ops@example.org"]
    settings.MAIL_URL = "smtp://mail.example.org:25"
    report.mail()
    mailing.deliver()
    assert "MFU 42 %, 12.0 GPU-hours waiting" in mail.outbox[0].body


def test_the_jobs_that_ended_are_told_by_size(running: Job, browser: Browser, owner: User) -> None:
    now = now_ms()
    Job.objects.filter(id=running.id).update(started_ms=now - 3 * HOUR_MS, finished_ms=now - HOUR_MS)
    (eight,) = report.make(None, now).mix
    assert (eight.label, eight.jobs, eight.gpu_ms) == ("2 to 8", 1, 16 * HOUR_MS)
    assert (eight.share_percent, eight.p50_ms) == (100.0, 2 * HOUR_MS)
    page = browser(owner).get("/report/").content.decode()
    assert "Jobs that ended" in page
    assert "16.0" in page


def test_a_guarantee_is_measured_over_the_time_that_the_platform_has_run(
    running: Job, browser: Browser, owner: User
) -> None:
    now = now_ms()
    LedgerEntry.objects.update(started_ms=now - HOUR_MS)
    Job.objects.update(submitted_ms=now - HOUR_MS)
    made = report.make(None, now)
    [vision] = made.teams
    assert (vision.guaranteed, vision.percent, vision.under_used) == (4, 200.0, False)
    assert "has run for 1 h" in browser(owner).get("/report/").content.decode()


def test_the_least_busy_jobs_say_which_are_left_out(running: Job, browser: Browser, owner: User) -> None:
    for _ in range(idle_policy.LEAST_SAMPLES - 1):
        idle_policy.keep_utilisation({running.id: 0.1}, now_ms())
    page = browser(owner).get("/report/").content.decode()
    assert "No job of your teams that was measured for 5 min or longer" in page
    assert "Jobs measured for less than 5 min are left out" in page


def test_each_team_sees_its_own_costs_and_jobs(
    running: Job, quota: Callable[..., Quota], nlp: Any, browser: Browser, owner: User, outsider: User
) -> None:
    now = week(running, quota, nlp)
    Job.objects.update(idle_since_ms=now_ms() - HALF_HOUR_MS)
    assert [use.team for use in report.make(["nlp"], now).teams] == ["nlp"]
    mine, theirs = (browser(who).get("/report/").content.decode() for who in (owner, outsider))
    assert "sleeper" in mine
    assert "sleeper" not in theirs
    assert running.id not in theirs


def test_jobs_that_were_hardly_busy_are_told_with_what_they_held_without_use(
    running: Job, owner: User
) -> None:
    now = now_ms()
    for number in range(2 * idle_policy.LEAST_SAMPLES):
        idle_policy.keep_utilisation({running.id: 0.5 if number % 2 else 0.1}, now)
    LedgerEntry.objects.update(started_ms=now - HOUR_MS)
    (line,) = report.make(["vision"], now).hardly_busy
    assert (line["name"], round(line["percent"]), line["unused_gpu_ms"]) == (
        "sleeper",
        30,
        round(8 * HOUR_MS * 0.7),
    )
    assert report.make(["nlp"], now).hardly_busy == ()
    for _ in range(2 * idle_policy.LEAST_SAMPLES):
        idle_policy.keep_utilisation({running.id: 0.9}, now)
    assert report.make(None, now).hardly_busy == ()


def test_what_was_lost_by_stopping_stands_beside_the_costs_of_both_teams(
    running: Job, quota: Callable[..., Quota], nlp: Any, browser: Browser, outsider: User
) -> None:
    now = week(running, quota, nlp)
    Receipt.objects.create(
        at_ms=now - 9, job_id=running.id, team="vision", for_job="job-other", for_team="nlp", kind="reclaimed",
        gpu_type="cpu", lost_gpu_ms=2 * HOUR_MS,
    )  # fmt: skip
    vision, other = report.make(None, now).teams
    assert (vision.lost_gpu_ms, vision.caused_gpu_ms) == (2 * HOUR_MS, 0)
    assert (other.lost_gpu_ms, other.caused_gpu_ms) == (0, 2 * HOUR_MS)


def test_an_empty_cluster_has_a_report_too(browser: Browser, outsider: User) -> None:
    page = browser(outsider).get("/report/").content.decode()
    assert "Nothing was measured yet" in page


def test_the_report_goes_by_mail_to_those_who_are_named(
    running: Job, quota: Callable[..., Quota], nlp: Any, settings: Any
) -> None:
    week(running, quota, nlp)
    [failed] = Job.objects.get(id=running.id).failures
    Job.objects.filter(id=running.id).update(failures=[{**failed, "at_ms": now_ms() - 9}])
    assert report.mail() == 0
    settings.REPORT_RECIPIENTS = ["ops@example.org", "lead@example.org"]
    settings.MAIL_URL = "smtp://mail.example.org:25"
    assert report.mail() == 2
    mailing.deliver()
    report.mail()  # the task came twice
    mailing.deliver()
    sent, _ = mail.outbox
    assert sorted(each.to for each in mail.outbox) == [["lead@example.org"], ["ops@example.org"]]
    assert "nlp, cpu: 0.0 GPU-hours, $0.00, 0 % of its guarantee of 2: under-used" in sent.body
    assert "node-0: 1" in sent.body
