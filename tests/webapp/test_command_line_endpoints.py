"""`trainmaster endpoints` against the REST API as it is served: labels that come later, and code that is sent along."""

import json
from pathlib import Path

import pytest

from tests.webapp.conftest import Cast, make_cast, make_teams
from tests.webapp.test_command_line_roles import As, run_as
from tests.webapp.world import build, endpoint_mapping
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.registry.models import ModelVersion
from webapp.serving import queries, services
from webapp.serving.models import Endpoint
from webapp.serving.values import SampledAnswer

__all__ = ["run_as"]


@pytest.fixture
def cast(transactional_db: None) -> Cast:
    make_teams()
    return make_cast()


@pytest.fixture
def endpoint(cast: Cast) -> Endpoint:
    """Two of its requests were sampled, each answered with a cat."""
    build(cast)
    row = services.create(actor_of(cast.owner), endpoint_mapping(sample_percent=100))
    request, answer = b'{"inputs": [1]}', b'{"outputs": ["cat"]}'
    services.keep_answers(
        [SampledAnswer(row.id, row.stable_id, now_ms(), request, answer, (), key) for key in ("r-1", "r-2")]
    )
    return row


def lines(file: Path, **labels: object) -> str:
    file.write_text(
        "".join(json.dumps({"request": key, "label": value}) + "\n" for key, value in labels.items())
    )
    return str(file)


def test_labels_of_a_file_are_joined_and_what_is_not_known_is_counted(
    run_as: As, cast: Cast, endpoint: Endpoint, tmp_path: Path
) -> None:
    file = lines(tmp_path / "labels.jsonl", **{"r-1": "cat", "r-2": 7, "r-9": "dog"})
    told = run_as(cast.member, "endpoints", "label", f"vision/{endpoint.name}", file).stdout
    assert told == "1 label joined; 1 of unknown requests, 1 of another shape.\n"
    quality = queries.online(endpoint, endpoint.stable_id)
    assert (quality.labelled, quality.correct) == (1, 1)


def test_a_file_that_is_no_list_of_labels_is_refused_in_a_sentence(
    run_as: As, cast: Cast, endpoint: Endpoint, tmp_path: Path
) -> None:
    file = tmp_path / "labels.jsonl"
    for text in ("not JSON\n", '{"request": "r-1"}\n', "[1]\n"):
        file.write_text(text)
        refused = run_as(cast.member, "endpoints", "label", endpoint.name, str(file), code=2).output
        assert "each line must be" in refused


def test_who_may_not_label_is_told(run_as: As, cast: Cast, endpoint: Endpoint, tmp_path: Path) -> None:
    file = lines(tmp_path / "labels.jsonl", **{"r-1": "cat"})
    name = f"vision/{endpoint.name}"
    assert endpoint.name in run_as(cast.outsider, "endpoints", "label", name, file, code=1).output
    run_as(cast.viewer, "endpoints", "label", name, file, code=1)
    assert queries.online(endpoint, endpoint.stable_id).labelled == 0


def test_the_code_of_an_entry_is_sent_along(
    run_as: As, cast: Cast, endpoint: Endpoint, tmp_path: Path
) -> None:
    (tmp_path / "serve.py").write_text("class Model: ...")
    model = endpoint.stable.model.name
    run_as(
        cast.member, "endpoints", "create", "coded", model, "--set", "runtime=python", "--set", "entry=serve:Model",
        "--code", str(tmp_path),
    )  # fmt: skip
    sent = Endpoint.objects.get(name="coded").spec["code"]
    assert [one["path"] for one in artifacts.file_list(sent)] == ["serve.py"]


def test_a_zero_is_told_to_the_platform_and_what_is_left_out_is_not(
    run_as: As, cast: Cast, endpoint: Endpoint
) -> None:
    other = ModelVersion.objects.get(pk=endpoint.stable_id)
    other.pk, other.version = "mv-other", 99
    other.save(force_insert=True)
    policy = ("--watch", "0", "--max-accuracy-loss", "0")
    run_as(cast.owner, "endpoints", "change", f"vision/{endpoint.name}", "99", *policy)
    endpoint.refresh_from_db()
    kept = queries.canary_policy(endpoint)
    assert (kept.watch_ms, kept.max_accuracy_loss, kept.min_requests) == (0, 0.0, 100)
