from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.sdk.platform_stub import TOKEN, PlatformStub
from trainmaster.answers import Job, LogLine, UnexpectedAnswer
from trainmaster.client import ApiError, Client, Unreachable

JOB = {"id": "job-1", "name": "bytelm", "team": "vision", "state": "pending", "url": "http://p/jobs/job-1/"}


def test_a_job_is_submitted_with_its_lineage_and_key(platform: PlatformStub) -> None:
    platform.answer("POST training-jobs", {**JOB, "a_field_of_tomorrow": 1}, 201)
    with Client(platform.url, TOKEN) as client:
        job = client.submit({"name": "bytelm"}, idempotency_key="k", lineage={"git_commit": "abc"})
    assert (job.id, job.state, job.is_finished) == ("job-1", "pending", False)
    [asked] = platform.asked
    assert asked.headers["idempotency-key"] == "k"
    assert asked.json == {"name": "bytelm", "lineage": {"git_commit": "abc"}}


def test_a_refusal_is_a_sentence_with_its_fields(platform: PlatformStub) -> None:
    problems = [{"field": "num_gpus", "sentence": "num_gpus is 0; ask for 1 to 10000"}]
    platform.refuse(
        "POST training-jobs", 422, "spec_invalid", "The job description is not valid", problems=problems
    )
    with Client(platform.url, TOKEN) as client, pytest.raises(ApiError) as raised:
        client.submit({}, idempotency_key="k")
    assert (raised.value.status, raised.value.code) == (422, "spec_invalid")
    assert raised.value.problems == (("num_gpus", "num_gpus is 0; ask for 1 to 10000"),)


def test_a_platform_that_is_not_there_is_named() -> None:
    with (
        Client("http://127.0.0.1:9", TOKEN) as client,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 cannot be"),
    ):
        client.me()


def test_another_web_site_is_recognised(platform: PlatformStub) -> None:
    platform.answer("GET me", b"<html>")
    platform.answer("GET nodes", {"hello": "world"})
    platform.answer("GET training-jobs/job-1", {"hello": "world"})
    with Client(platform.url, TOKEN) as client:
        for call in (client.me, client.nodes, lambda: client.job("job-1")):
            with pytest.raises(UnexpectedAnswer):
                call()


def test_a_page_of_errors_without_a_problem_document_is_still_told(platform: PlatformStub) -> None:
    platform.answer("GET me", b"<h1>Bad gateway</h1>", 502)
    with Client(platform.url, TOKEN) as client, pytest.raises(ApiError, match="/api/v1/me answered 502"):
        client.me()


def test_jobs_are_read_page_by_page_up_to_the_limit(platform: PlatformStub) -> None:
    platform.answer("GET training-jobs", {"results": [JOB, JOB], "next": "c1"})
    platform.answer("GET training-jobs", {"results": [JOB, JOB], "next": None})
    with Client(platform.url, TOKEN) as client:
        assert len(list(client.jobs(limit=3, state="active", team=""))) == 3
    first, second = (asked.path for asked in platform.asked)
    assert "state=active" in first
    assert "team" not in first
    assert "cursor=c1" in second


def test_a_folder_is_uploaded_file_by_file_and_completed_with_their_number(
    platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_bytes(b"")
    (tmp_path / "größe 1.bin").write_bytes(b"x" * 300_000)
    platform.answer("POST uploads", {"id": "up-1"}, 201)
    for path in ("a.py", "deep/gr%C3%B6%C3%9Fe%201.bin"):
        platform.answer(f"PUT uploads/up-1/files/{path}", {"size": 0}, 201)
    platform.answer("POST uploads/up-1/complete", {"manifest": "man-1"}, 201)
    files = [("a.py", tmp_path / "a.py"), ("deep/größe 1.bin", tmp_path / "größe 1.bin")]
    with Client(platform.url, TOKEN) as client:
        assert client.upload("code", "vision", "bytelm", files) == "man-1"
    sent = {unquote(asked.path): asked for asked in platform.requests("PUT")}
    assert sent["uploads/up-1/files/deep/größe 1.bin"].body == b"x" * 300_000
    assert sent["uploads/up-1/files/a.py"].headers["content-length"] == "0"
    assert platform.requests("POST", "uploads/up-1/complete")[0].json == {"files": 2}


def test_an_id_from_a_person_cannot_lead_elsewhere(platform: PlatformStub) -> None:
    with Client(platform.url, TOKEN) as client, pytest.raises(ApiError):
        client.job("../nodes?x=")
    assert platform.asked[0].path == "training-jobs/..%2Fnodes%3Fx%3D"


def test_the_token_does_not_follow_a_redirect(platform: PlatformStub) -> None:
    platform.answer("GET me", {}, 302)
    with Client(platform.url, TOKEN) as client, pytest.raises(ApiError, match="answered 302"):
        client.me()
    assert len(platform.asked) == 1


def test_null_counts_as_absent_where_there_is_a_default() -> None:
    assert Job.of({**JOB, "reason": None}).reason == ""
    assert LogLine.of({"text": "x"}) == LogLine("x")
    with pytest.raises(UnexpectedAnswer, match="no state"):
        Job.of({**JOB, "state": None})
