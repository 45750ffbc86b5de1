"""A manifest is named by its content, so two teams can have the same one."""

import io
from collections.abc import Callable

from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries, services
from webapp.datasets import queries as dataset_queries
from webapp.datasets import services as datasets

Api = Callable[..., APIClient]


def uploaded(actor: object, team: str, kind: str = "code") -> str:
    upload = services.start_upload(actor, team, kind, "same bytes")  # type: ignore[arg-type]
    services.receive_file(actor, upload.id, "train.py", io.BytesIO(b"print('hello')"))  # type: ignore[arg-type]
    return services.complete_upload(actor, upload.id).id  # type: ignore[arg-type]


def test_two_teams_that_upload_the_same_code_both_have_it(cast: Cast) -> None:
    first = uploaded(actor_of(cast.owner), "vision")
    assert not queries.manifest_exists(first, "nlp", "code"), "to know the id is not to have the bytes"
    second = uploaded(actor_of(cast.outsider), "nlp")
    assert first == second
    assert queries.manifest_exists(first, "vision", "code")
    assert queries.manifest_exists(first, "nlp", "code")


def test_two_teams_that_upload_the_same_dataset_each_have_their_snapshot(cast: Cast) -> None:
    for user, team in ((cast.owner, "vision"), (cast.outsider, "nlp")):
        manifest = uploaded(actor_of(user), team, "dataset")
        snapshot = datasets.add_snapshot(actor_of(user), team, "stdlib", manifest, "train")
        kept = dataset_queries.snapshot(snapshot.id)
        assert kept is not None
        assert (kept.team_id, kept.manifest_id) == (team, manifest)


def test_a_path_longer_than_any_disk_takes_is_refused(cast: Cast, api: Api) -> None:
    upload = services.start_upload(actor_of(cast.owner), "vision", "code", "long")
    for path in ("a" * 300, "/".join(["abcd"] * 300)):
        address = f"/api/v1/uploads/{upload.id}/files/{path}"
        answer = api(cast.owner).put(address, b"x", content_type="application/octet-stream")
        assert (answer.status_code, answer.json()["code"]) == (422, "manifest_invalid")
