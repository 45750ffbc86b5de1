"""Who may do what on the pages of jobs."""

from collections.abc import Iterator

from tests.webapp.permission_rows import (
    LEADS,
    MEMBERS,
    OF_TEAM,
    OWN_OR_LEAD,
    SIGNED_IN,
    WHILE_RUNNING,
    WHILE_STOPPING,
    Row,
)
from tests.webapp.world import job_mapping


def job_rows() -> Iterator[Row]:
    yield Row("get", "jobs/", SIGNED_IN)
    yield Row("get", "planner/", SIGNED_IN)
    yield Row("get", "planner/measured/", SIGNED_IN)
    yield Row("get", "jobs/submit/", "L Y F Y Y Y Y")
    yield Row("get", "jobs/submit/", "L N F Y Y Y Y", "jobs/submit/?clone={job}")
    yield Row("post", "jobs/submit/", "L U F Y Y Y Y", body=job_mapping())
    yield Row("post", "jobs/check/", SIGNED_IN, body=job_mapping())  # its panel says what one may not
    # Without an archive; tests/webapp/jobs/test_uploading.py has those who may not upload one.
    yield Row("post", "jobs/code/", "L U F U U U U", body={"team": "vision"})
    yield Row("get", "jobs/<str:job_id>/", OF_TEAM, "jobs/{job}/")
    yield Row("post", "jobs/<str:job_id>/again/", MEMBERS, "jobs/{job}/again/")
    yield Row("post", "jobs/<str:job_id>/cancel/", OWN_OR_LEAD, "jobs/{job}/cancel/")
    yield Row("post", "jobs/<str:job_id>/save/", WHILE_RUNNING, "jobs/{job}/save/")
    pin, pinned = (
        "jobs/<str:job_id>/checkpoints/<str:checkpoint_id>/pin/",
        "jobs/{job}/checkpoints/{checkpoint}/pin/",
    )
    yield Row("post", pin, OWN_OR_LEAD, pinned, {"pinned": "yes"})
    delete, deleted = pin.replace("/pin/", "/delete/"), pinned.replace("/pin/", "/delete/")
    yield Row("post", delete, WHILE_RUNNING, deleted)  # it is in use
    yield Row("post", "jobs/<str:job_id>/stacks/", WHILE_RUNNING, "jobs/{job}/stacks/")
    yield Row("post", "jobs/<str:job_id>/profile/", WHILE_RUNNING, "jobs/{job}/profile/")
    yield Row("post", "jobs/<str:job_id>/restart/", WHILE_RUNNING, "jobs/{job}/restart/")
    yield Row("post", "jobs/<str:job_id>/lost/", WHILE_STOPPING, "jobs/{job}/lost/")
    question = {"gpu_type": "cpu", "order": "first_come"}
    yield Row("post", "queue/what-if/", SIGNED_IN, body=question)
    yield Row("get", "queue/<str:job_id>/changes/", OF_TEAM, "queue/{job}/changes/")
    yield Row("post", "queue/<str:job_id>/priority/", LEADS, "queue/{job}/priority/", body={"priority": "40"})
    yield Row("get", "jobs/<str:job_id>/log/", OF_TEAM, "jobs/{job}/log/")
    yield Row("get", "jobs/<str:job_id>/log.txt", OF_TEAM, "jobs/{job}/log.txt")
