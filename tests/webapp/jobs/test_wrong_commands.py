"""A command that cannot work: told before it starts where that can be known, else with the end of its log."""

from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.distribution.content.manifest import ManifestBuilder
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.spec import SpecError
from tests.webapp.jobs.conftest import after_its_pause, say
from tests.webapp.jobs.test_pages import FORM
from webapp.accounts.models import User
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.jobs import logs, services
from webapp.jobs.models import Attempt, Job

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
BANNER = "=" * 60 + "\ntrainmaster.rank FAILED\n" + "=" * 60 + "\n"


@pytest.fixture
def code() -> str:
    builder = ManifestBuilder("code")
    builder.feed("src/train.py", b"import torch")
    manifest = builder.finish()
    artifacts.register(manifest, "vision", "file:///bundle")
    return manifest.id


def test_a_script_that_the_bundle_does_not_have_is_refused(submit: Submit, code: str) -> None:
    with pytest.raises(SpecError) as refused:
        submit(code=code, command="python train.py")
    [problem] = refused.value.problems
    assert problem.field == "command"
    assert problem.sentence.endswith("not in the code bundle; did you mean src/train.py?")
    assert submit(code=code, command="python src/train.py").id


def test_the_form_says_that_without_code_there_is_no_script(client: Client, owner: User) -> None:
    client.force_login(owner)
    page = client.post("/jobs/check/?block=check", {**FORM, "command": "train.py"}).content.decode()
    assert "The command runs train.py, but the job has no code" in page
    page = client.post("/jobs/check/?block=check", {**FORM, "command": "python -m train"}).content.decode()
    assert "has no code" not in page


def wrong(job: Job, text: str) -> None:
    """Fails twice as a wrong command does, with this in its log."""
    for _ in range(2):
        after_its_pause(job)
        say(job, MemberPhase.RUNNING)
        attempt = Attempt.objects.get(job=job, ended_ms=None)
        logs.ingest(attempt, 0, 0, 10, "Loading\nOne more line\n", 1)
        logs.ingest(attempt, 1, 0, 10, text, 2)
        logs.ingest(attempt, 1_000_000, 0, 10, BANNER, 3)
        say(job, MemberPhase.EXITED, 1)


def test_a_failed_job_shows_the_traceback_and_not_the_banner_of_torchrun(
    submit: Submit, client: Client, owner: User
) -> None:
    job = submit(num_gpus=1)
    trace = 'Traceback (most recent call last):\n  File "train.py", line 1\nImportError: no module torch\n'
    wrong(job, f"Loading\n{trace}")
    assert logs.ending(job.id) == trace.splitlines()
    client.force_login(owner)
    page = client.get(f"/jobs/{job.id}/").content.decode()
    assert "ImportError: no module torch" in page.split("Last lines of the log")[1].split("</pre>")[0]


def test_the_same_step_twice_ends_a_job_however_long_it_ran(submit: Submit) -> None:
    job = submit(num_gpus=1)
    for number in (1, 2):
        after_its_pause(job)
        say(job, MemberPhase.RUNNING)
        Attempt.objects.filter(job=job, number=number).update(running_ms=now_ms() - 3_600_000)
        services.progress(job.id, number, {"step": 4_990, "progress_ms": now_ms()})
        services.progress(job.id, number, {"step": 5_000, "progress_ms": now_ms()})
        say(job, MemberPhase.EXITED, 1)
    job.refresh_from_db()
    assert job.state == "failed"
    assert "in the same way the last time, at step 5,000" in job.reason


def test_without_a_traceback_it_is_the_last_lines_of_the_first_rank(submit: Submit) -> None:
    job = submit(num_gpus=1)
    wrong(job, "another rank\n")
    assert logs.ending(job.id) == ["Loading", "One more line"]


def test_a_job_without_a_log_has_no_last_lines(submit: Submit) -> None:
    assert logs.ending(submit(num_gpus=1).id) == []
