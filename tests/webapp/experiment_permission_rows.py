"""Who gets what of every page of runs, experiments and reports."""

from collections.abc import Iterator

from tests.webapp.permission_rows import MEMBERS, OF_TEAM, OWN_OR_LEAD, SIGNED_IN, Row


def experiment_rows() -> Iterator[Row]:
    yield Row("get", "sweeps/", SIGNED_IN)
    yield Row("get", "sweeps/<str:sweep_id>/", OF_TEAM, "sweeps/{sweep}/")
    for verb in ("pause", "resume", "cancel", "budget"):
        yield Row("post", f"sweeps/<str:sweep_id>/{verb}/", OWN_OR_LEAD, f"sweeps/{{sweep}}/{verb}/")
    yield Row("get", "experiments/", SIGNED_IN)
    yield Row("get", "experiments/compare/", OF_TEAM, "experiments/compare/?runs={job}")
    yield Row("post", "experiments/compare/", SIGNED_IN, body={"runs": "{job}"})
    yield Row("get", "experiments/curves/", OF_TEAM, "experiments/curves/?runs={job}&key=loss")
    yield Row("get", "experiments/<int:experiment_id>/", OF_TEAM, "experiments/{experiment}/")
    one, of = "experiments/<int:experiment_id>", "experiments/{experiment}"
    yield Row("post", "experiments/new/", MEMBERS, body={"team": "vision", "name": "widths"})
    yield Row("get", f"{one}/names/", OF_TEAM, f"{of}/names/")
    yield Row("post", f"{one}/edit/", MEMBERS, f"{of}/edit/", {"description": "why"})
    yield Row("post", f"{one}/archive/", MEMBERS, f"{of}/archive/")
    yield Row("post", f"{one}/restore/", MEMBERS, f"{of}/restore/")
    yield Row("post", f"{one}/delete/", OWN_OR_LEAD, f"{of}/delete/")
    yield Row("post", f"{one}/views/", OF_TEAM, f"{of}/views/", {"name": "best", "query": "view=all"})
    shared = {"name": "best", "query": "view=all", "shared": "true"}
    yield Row("post", f"{one}/views/", MEMBERS, f"{of}/views/", shared)
    delete = f"{of}/views/{{view}}/delete/"  # of alice, and shared
    yield Row("post", f"{one}/views/<int:view_id>/delete/", OWN_OR_LEAD, delete)
    artifact = "jobs/{job}/artifacts/{artifact}/code.bin"
    yield Row("get", "jobs/<str:job_id>/artifacts/<int:artifact_id>/<path:name>", OF_TEAM, artifact)
    yield from run_rows()
    yield from report_rows()


def run_rows() -> Iterator[Row]:
    run, of = "runs/<str:run_id>", "runs/{run}"
    yield Row("get", f"{run}/", OF_TEAM, f"{of}/")
    yield Row("get", f"{run}/", OF_TEAM, "runs/{job}/")  # leads to the page of its job
    yield Row("post", f"{run}/edit/", MEMBERS, f"{of}/edit/", {"name": "another"})
    yield Row("post", f"{run}/tags/", MEMBERS, f"{of}/tags/", {"tag": "stage = prod"})
    yield Row("post", f"{run}/archive/", MEMBERS, f"{of}/archive/")
    yield Row("post", f"{run}/restore/", MEMBERS, f"{of}/restore/")
    yield Row("post", f"{run}/delete/", OWN_OR_LEAD, f"{of}/delete/")
    yield Row("get", f"{run}/files/<path:path>", OF_TEAM, "runs/{job}/files/code/code.bin")
    # A file that is no image is not shown as one.
    yield Row("get", f"{run}/images/<path:path>", "L N N N N N N", "runs/{job}/images/code/code.bin")
    many = {"runs": ["{run}"], "tag": "stage = prod"}
    yield Row("post", "runs/change/", MEMBERS, body={**many, "verb": "tag"})
    yield Row("post", "runs/change/", MEMBERS, body={**many, "verb": "archive"})
    yield Row("post", "runs/change/", OWN_OR_LEAD, body={**many, "verb": "delete"})


def report_rows() -> Iterator[Row]:
    report, of = "reports/<str:report_id>", "reports/{report}"
    text = {"team": "vision", "title": "Rates", "text": "slow is best"}
    yield Row("get", "reports/", SIGNED_IN)
    yield Row("get", "reports/new/", "L Y F Y Y Y Y")
    yield Row("post", "reports/new/", MEMBERS, body=text)
    yield Row("get", f"{report}/", OF_TEAM, f"{of}/")
    yield Row("get", f"{report}/edit/", MEMBERS, f"{of}/edit/")
    yield Row("post", f"{report}/edit/", MEMBERS, f"{of}/edit/", {**text, "version": "1"})
    yield Row("post", f"{report}/delete/", OWN_OR_LEAD, f"{of}/delete/")
    # It is not deleted, so there is nothing to restore; test_reports has those who may.
    yield Row("post", f"{report}/restore/", "L N N N N N N", f"{of}/restore/")
    yield Row("post", f"{report}/versions/<int:number>/restore/", MEMBERS, f"{of}/versions/1/restore/")
    yield Row("post", f"{report}/comments/", MEMBERS, f"{of}/comments/", {"text": "good"})
    comment = f"{of}/comments/{{comment}}/delete/"
    yield Row("post", f"{report}/comments/<int:comment_id>/delete/", OWN_OR_LEAD, comment)
    yield Row("post", f"{report}/links/", MEMBERS, f"{of}/links/", {"days": "7"})
    revoke = f"{of}/links/{{read_link}}/revoke/"
    yield Row("post", f"{report}/links/<int:link_id>/revoke/", MEMBERS, revoke)
    shared, of = "reports/shared/<str:token>", "reports/shared/{read_token}"
    yield Row("get", f"{shared}/", "Y Y Y Y Y Y Y", f"{of}/")
    yield Row("get", f"{shared}/charts/<int:number>/", "Y Y Y Y Y Y Y", f"{of}/charts/1/")
    yield Row("get", f"{shared}/images/<int:number>/", "N N N N N N N", f"{of}/images/1/")
