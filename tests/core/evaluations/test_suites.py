"""A suite file is a job file with metrics; contamination is the same content in two datasets."""

from dataclasses import replace
from typing import Any

import pytest

from platform_core.evaluations import contamination, suite
from platform_core.evaluations.states import EvaluationState, follow
from platform_core.jobs.reader import SpecError
from platform_core.jobs.states import TERMINAL, JobState

FILE: dict[str, Any] = {
    "name": "held-out", "team": "vision", "command": "evaluate.py", "gpu_type": "cpu", "dataset": "ds-1",
    "metrics": {"accuracy": "higher", "loss": "lower"},
}  # fmt: skip


def test_a_suite_is_read_as_it_was_written_and_its_job_has_the_model() -> None:
    read = suite.parse(FILE)
    assert suite.load(suite.as_mapping(read)) == read
    job = suite.job_of(read, 3, "bytelm:7")
    assert (job.model, job.purpose, job.experiment) == ("bytelm:7", "evaluation", "held-out")
    assert job.name == "held-out v3 of bytelm:7"
    assert suite.missing(read, {"accuracy": 1}) == "the results have no metric loss"
    assert suite.missing(read, {"accuracy": 1, "loss": 2, "more": 3}) == ""


def test_code_of_a_repository_stays_the_bundle_that_it_was() -> None:
    read = suite.parse({**FILE, "git": {"url": "https://git.example/team/project.git"}})
    pinned = suite.SuiteSpec(replace(read.job, code="man-1"), read.metrics)
    job = suite.job_of(suite.load(suite.as_mapping(pinned)), 1, "bytelm:7")
    assert (job.code, job.git.url) == ("man-1", "https://git.example/team/project.git")


def test_every_problem_is_said_at_once() -> None:
    with pytest.raises(SpecError) as refused:
        suite.parse({**FILE, "metrics": {"accuracy": "up"}, "secrets": ["A"], "model": "a:1", "num_gpus": 0})
    fields = {problem.field for problem in refused.value.problems}
    assert fields == {"metrics.accuracy", "secrets", "model", "num_gpus"}
    with pytest.raises(SpecError, match="cannot name a metric"):
        suite.parse({**FILE, "metrics": {"a\0": "higher"}})
    with pytest.raises(SpecError, match="mapping of fields"):
        suite.parse([])


def test_files_of_the_same_content_are_found_under_other_names() -> None:
    def files(**digests: str) -> list[dict[str, Any]]:
        return [{"path": path, "sha256": digest, "size": len(digest)} for path, digest in digests.items()]

    found = contamination.compare(files(a="1", b="2", empty=""), {"ds-2": files(x="2", none=""), "ds-3": []})
    assert found == contamination.Finding(1, ("b",), 2, ("ds-2", "ds-3"))


@pytest.mark.parametrize("state", list(JobState))
def test_an_evaluation_follows_its_job_until_that_ends(state: JobState) -> None:
    assert (follow(state) is None) == (state in TERMINAL)
    assert follow(JobState.PREEMPTED) is EvaluationState.WAITING
