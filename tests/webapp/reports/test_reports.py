"""Reports: written, changed, commented, shared by a link, and seen by nobody else."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.experiments import services as experiments
from webapp.experiments.models import Run
from webapp.metrics import services as store
from webapp.metrics.values import Points
from webapp.reports import queries, services
from webapp.reports.models import ReadLink, Report

Who = Callable[[User], Actor]
Browse = Callable[[User], Client]
TEXT = "The best run.\n\n```runs\ncolumns: params.lr\n```\n\n```chart\nmetric: loss\n```\n"


@pytest.fixture
def alice(cast: Cast, actor: Who) -> Actor:
    return actor(cast.owner)


@pytest.fixture
def run(alice: Actor) -> Run:
    experiment = experiments.create_experiment(alice, "vision", "rates")
    run = experiments.create_run(alice, experiment, name="slow rate", parameters={"lr": 0.25})
    store.append(run.id, [Points("loss", [1, 2], [0.5, 0.25], [1, 2])])
    return run


@pytest.fixture
def report(alice: Actor, run: Run) -> Report:
    return services.create_report(alice, "vision", "Rates", TEXT)


def refusal(call: Callable[..., Any], *args: Any, **named: Any) -> str:
    with pytest.raises(TrainmasterError) as caught:
        call(*args, **named)
    return caught.value.code


def test_each_save_is_a_version_and_the_same_text_again_is_none(alice: Actor, report: Report) -> None:
    saved = services.save_report(alice, report, title="Rates", text="shorter", seen_version=1)
    again = services.save_report(alice, saved, title="Rates", text="shorter", seen_version=1)
    assert (saved.version, again.version) == (2, 2)
    assert [version.number for version in queries.versions(report)] == [2, 1]


def test_whoever_saves_over_a_change_of_another_is_told(alice: Actor, report: Report) -> None:
    services.save_report(alice, report, title="Rates", text="mine", seen_version=1)
    assert (
        refusal(services.save_report, alice, report, title="Rates", text="theirs", seen_version=1)
        == "stale_version"
    )


def test_an_earlier_version_comes_back_as_a_new_one(alice: Actor, report: Report) -> None:
    services.save_report(alice, report, title="Other", text="shorter", seen_version=1)
    restored = services.restore_version(alice, report, 1)
    assert (restored.title, restored.version, queries.version(restored).text) == ("Rates", 3, TEXT)


def test_the_page_shows_text_runs_and_charts_of_the_team(
    report: Report, run: Run, cast: Cast, browser: Browse
) -> None:
    page = browser(cast.viewer).get(f"/reports/{report.id}/").content.decode()
    assert "<p>The best run.</p>" in page
    assert f'<a href="/runs/{run.id}/">slow rate</a>' in page
    assert 'data-metric="loss"' in page


def test_a_chart_of_a_metric_that_no_run_reported_names_those_that_there_are(
    alice: Actor, run: Run, cast: Cast, browser: Browse
) -> None:
    report = services.create_report(alice, "vision", "Wrong", "```chart\nmetric: val/loss\n```")
    page = browser(cast.viewer).get(f"/reports/{report.id}/").content.decode()
    assert "No run of this filter has reported val/loss; reported are loss." in page
    assert "data-metric" not in page


def test_a_new_report_begins_with_a_metric_that_the_runs_have(
    alice: Actor, run: Run, cast: Cast, browser: Browse
) -> None:
    store.append(run.id, [Points("val/accuracy", [1, 2], [0.5, 0.75], [1, 2])])
    experiments.finish_run(alice, run)
    page = browser(cast.owner).get("/reports/new/").content.decode()
    assert "metric: val/accuracy\n" in page
    assert "order: highest.val/accuracy\n" in page
    assert 'data-metric="val/accuracy"' in page


def test_a_block_with_a_mistake_says_so_and_the_rest_is_shown(
    alice: Actor, cast: Cast, browser: Browse
) -> None:
    report = services.create_report(alice, "vision", "Broken", "before\n\n```chart\nruns: x\n```\n\nafter")
    page = browser(cast.owner).get(f"/reports/{report.id}/").content.decode()
    assert "needs a line “metric: …”" in page
    assert "<p>before</p>" in page
    assert "<p>after</p>" in page


def test_html_in_a_report_and_in_a_comment_stays_text(
    alice: Actor, report: Report, cast: Cast, browser: Browse
) -> None:
    services.save_report(alice, report, title="Rates", text="<script>alert(1)</script>", seen_version=1)
    services.add_comment(alice, report, "<img src=x onerror=alert(1)>")
    page = browser(cast.owner).get(f"/reports/{report.id}/").content.decode()
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page


def test_writing_previewing_and_saving_in_the_browser(cast: Cast, browser: Browse, run: Run) -> None:
    alice = browser(cast.owner)
    form = {"team": "vision", "title": "From the page", "text": "# Seen\n"}
    preview = alice.post("/reports/new/", {**form, "preview": "1"})
    assert "<h3>Seen</h3>" in preview.content.decode() or "<h2>Seen</h2>" in preview.content.decode()
    assert not Report.objects.exists()
    saved = alice.post("/reports/new/", form)
    report = Report.objects.get()
    assert saved["Location"] == f"/reports/{report.id}/"
    changed = alice.post(f"/reports/{report.id}/edit/", {"title": "Changed", "text": "x", "version": "1"})
    assert changed.status_code == 302
    late = alice.post(f"/reports/{report.id}/edit/", {"title": "Late", "text": "y", "version": "1"})
    assert late.status_code == 409
    assert "has changed since you opened it" in late.content.decode()
    assert ">y</textarea>" in late.content.decode()  # nothing that was typed is lost


def test_an_author_deletes_their_comment_and_a_lead_any(report: Report, cast: Cast, actor: Who) -> None:
    bob, alice, lena = actor(cast.member), actor(cast.owner), actor(cast.lead)
    first, second = services.add_comment(bob, report, "good"), services.add_comment(bob, report, "really")
    assert refusal(services.delete_comment, alice, report, first.pk) == "not_allowed"
    services.delete_comment(bob, report, first.pk)
    services.delete_comment(lena, report, second.pk)
    assert queries.comments(report) == []


def test_a_deleted_report_is_restored_with_its_links(report: Report, alice: Actor) -> None:
    link = services.create_link(alice, report, 7)
    services.delete_report(alice, report)
    assert refusal(queries.report_for, alice, report.id) == "not_found"
    assert refusal(queries.shared_report, link.token) == "not_found"
    services.restore_report(alice, queries.report_for(alice, report.id, deleted=True))
    assert queries.shared_report(link.token).id == report.id


def shared(browser: Browse, owner: User, report: Report, days: str = "7") -> str:
    """The path of a link that a person made on the page."""
    page = browser(owner).post(f"/reports/{report.id}/links/", {"days": days}).content.decode()
    address = re.search(r"http://testserver(/reports/shared/[^<]+)", page)
    assert address, page
    return address[1]


def test_a_link_shows_the_report_to_a_stranger_without_ways_into_the_platform(
    report: Report, run: Run, cast: Cast, browser: Browse
) -> None:
    path = shared(browser, cast.owner, report)
    answer = Client().get(path)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "slow rate" in page
    assert run.id not in page
    assert 'href="/' not in re.sub(r'href="/static/[^"]*"', "", page)
    assert answer["X-Robots-Tag"] == "noindex"
    chart = re.search(r'data-url="([^"]+)"', page)
    assert chart
    assert run.id not in Client().get(chart[1]).content.decode()
    (values,) = Client().get(chart[1]).json()["charts"]
    assert [series["name"] for series in values["series"]] == ["slow rate"]


def test_a_link_opens_nothing_but_what_the_report_shows(
    report: Report, run: Run, cast: Cast, browser: Browse
) -> None:
    path = shared(browser, cast.owner, report)
    stranger = Client()
    for address in (f"{path}charts/1/", f"{path}charts/3/", f"{path}images/1/", f"{path}images/2/"):
        assert stranger.get(address).status_code == 404, address  # block 1 is a table
    assert stranger.get(f"/experiments/curves/?runs={run.id}&key=loss").status_code == 302
    assert stranger.get(f"/runs/{run.id}/").status_code == 302
    assert stranger.post(path).status_code == 405


def test_the_token_of_a_link_is_kept_as_a_digest_only(report: Report, alice: Actor) -> None:
    link = services.create_link(alice, report, 7)
    row = ReadLink.objects.get()
    assert link.token not in str(vars(row))


def test_an_expired_and_a_revoked_link_say_what_to_do(
    report: Report, alice: Actor, cast: Cast, browser: Browse
) -> None:
    path = shared(browser, cast.owner, report)
    link = ReadLink.objects.get()
    ReadLink.objects.update(expires_ms=now_ms() - 1)
    expired = Client().get(path)
    assert expired.status_code == 404
    assert "has expired or was revoked" in expired.content.decode()
    ReadLink.objects.update(expires_ms=now_ms() + 60_000)
    assert Client().get(path).status_code == 200
    browser(cast.owner).post(f"/reports/{report.id}/links/{link.pk}/revoke/")
    assert Client().get(path).status_code == 404
    assert Client().get(f"{path}charts/2/").status_code == 404


@pytest.mark.parametrize("days", ["0", "366", "many", ""])
def test_a_link_for_no_days_or_too_many_is_refused(
    report: Report, cast: Cast, browser: Browse, days: str
) -> None:
    answer = browser(cast.owner).post(f"/reports/{report.id}/links/", {"days": days})
    assert answer.status_code == 400
    assert not ReadLink.objects.exists()


def test_a_report_shows_only_runs_of_its_team(alice: Actor, cast: Cast, actor: Who, browser: Browse) -> None:
    carol = actor(cast.outsider)
    secret = experiments.create_experiment(carol, "nlp", "secret")
    theirs = experiments.create_run(carol, secret, name="their run")
    text = (
        f"```runs\nexperiment: secret\n```\n\n```runs\n```\n\n```image\nrun: {theirs.id}\nfile: a.png\n```\n"
    )
    report = services.create_report(alice, "vision", "Curious", text)
    for reader in (cast.owner, cast.admin):
        page = browser(reader).get(f"/reports/{report.id}/").content.decode()
        assert "their run" not in page
        assert "There is no experiment secret you may see" in page


def test_the_newest_version_is_edited_and_an_earlier_one_restored(
    report: Report, alice: Actor, cast: Cast, browser: Browse
) -> None:
    services.save_report(alice, report, title="Rates", text="shorter", seen_version=1)
    client = browser(cast.owner)
    newest = client.get(f"/reports/{report.id}/").content.decode()
    earlier = client.get(f"/reports/{report.id}/?version=1").content.decode()
    assert (">Edit</a>" in newest, "Restore version" in newest) == (True, False)
    assert (">Edit</a>" in earlier, "Restore version 1" in earlier) == (False, True)
