"""`trainmaster show JOB --spec`."""

import yaml

from platform_core.jobs.spec import as_mapping, parse
from tests.sdk.conftest import Trainmaster
from tests.sdk.platform_stub import PlatformStub

JOB_ID = "job-0000000000000001"


def test_the_printed_job_file_of_code_from_git_can_be_submitted_again(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    """In the order of the reference and without defaults; the commit alone names the code."""
    given = {
        "name": "bytelm", "team": "vision", "git": {"url": "https://git.example/project.git", "ref": "c0ffee"},
        "command": ["python", "train.py"], "gpu_type": "cpu", "environment": {"B": "2", "A": "1"},
    }  # fmt: skip
    kept = dict(sorted((as_mapping(parse(given)) | {"code": "man-1"}).items()))
    job = {"id": JOB_ID, "name": "bytelm", "team": "vision", "state": "pending", "spec": kept}
    platform.answer(f"GET training-jobs/{JOB_ID}", job)
    printed = yaml.safe_load(trainmaster("show", JOB_ID, "--spec").stdout)
    assert list(printed) == list(given)
    assert parse(printed) == parse(given)
