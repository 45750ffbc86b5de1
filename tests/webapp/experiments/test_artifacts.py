"""What a run handed over is listed on its job's page and can be fetched, by its team only."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client, override_settings

from platform_core.distribution.content.manifest import to_json
from tests.webapp.conftest import Cast
from tests.webapp.world import job_mapping
from trainmaster.store import open_store
from trainmaster.store.copying import copy_in, source_url
from webapp.accounts.models import Team
from webapp.accounts.queries import actor_of
from webapp.experiments import services
from webapp.experiments.models import RunArtifact
from webapp.jobs import services as jobs

Browser = Callable[..., Client]


@pytest.fixture
def handed_over(
    cast: Cast, vision: Team, quota: Callable[..., object], tmp_path: Path
) -> Iterator[RunArtifact]:
    quota(vision)
    lineage = {"git_commit": "abc123", "git_diff": "--- a/train.py\n+lr = <b>3e-4</b>\n"}
    job, _ = jobs.submit(actor_of(cast.owner), job_mapping(), lineage=lineage)
    with override_settings(STORE_URL=f"file://{tmp_path}"):
        url = f"file://{tmp_path}"
        files = [("report.html", io.BytesIO(b"<script>")), ("plots/a b.txt", io.BytesIO(b"x" * 3_000_000))]
        manifest = copy_in(open_store(url), "artifact", "up-1", files)
        services.add_artifact(
            job.id, "report", manifest_json=to_json(manifest), source_url=source_url(url, "artifact", "up-1")
        )
        yield RunArtifact.objects.get()


def address(artifact: RunArtifact, path: str) -> str:
    return f"/jobs/{artifact.run_id}/artifacts/{artifact.pk}/{path}"


def test_the_jobs_page_lists_each_file_with_its_way_to_it(
    handed_over: RunArtifact, cast: Cast, browser: Browser
) -> None:
    page = browser(cast.member).get(f"/jobs/{handed_over.run_id}/").content.decode()
    assert address(handed_over, "report.html") in page
    assert address(handed_over, "plots/a%20b.txt") in page


def test_a_file_comes_whole_and_never_as_a_page(
    handed_over: RunArtifact, cast: Cast, browser: Browser
) -> None:
    answer = browser(cast.member).get(address(handed_over, "plots/a%20b.txt"))
    assert b"".join(answer.streaming_content) == b"x" * 3_000_000  # type: ignore[arg-type]
    assert answer["Content-Length"] == "3000000"
    answer = browser(cast.member).get(address(handed_over, "report.html"))
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="report.html"'


def test_what_is_no_file_of_it_is_not_found(handed_over: RunArtifact, cast: Cast, browser: Browser) -> None:
    for path in ("other.txt", "../report.html", "plots"):
        assert browser(cast.member).get(address(handed_over, path)).status_code == 404


def test_uncommitted_changes_can_be_read_on_the_page(
    handed_over: RunArtifact, cast: Cast, browser: Browser
) -> None:
    page = browser(cast.member).get(f"/jobs/{handed_over.run_id}/?tab=spec").content.decode()
    assert "+lr = &lt;b&gt;3e-4&lt;/b&gt;" in page
