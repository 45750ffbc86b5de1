"""`trainmaster retrain` against the REST API as it is served: who may, and what they are told."""

from pathlib import Path

import pytest

from tests.webapp.conftest import Cast
from tests.webapp.test_command_line_roles import As, cast, run_as
from webapp.accounts import queries as accounts
from webapp.artifacts.models import Manifest
from webapp.registry import services as registry
from webapp.retraining.models import Policy

__all__ = ["cast", "run_as"]


@pytest.fixture
def policy(cast: Cast, tmp_path: Path) -> Path:
    """For a model of vision without an endpoint."""
    manifest = Manifest.objects.create(
        id="man-1", kind="model", source_url="", total_bytes=1, files=1, document={}, created_ms=1
    )
    manifest.teams.add("vision")
    registry.register(accounts.actor_of(cast.owner), "vision", "bytelm", manifest=manifest.id)
    file = tmp_path / "policy.yaml"
    file.write_text("max_age_days: 30\napprove_training: true\n")
    return file


def test_a_lead_sets_a_policy_shows_it_and_ends_it(run_as: As, cast: Cast, policy: Path) -> None:
    assert "No model has a policy" in run_as(cast.lead, "retrain", "list").output
    told = run_as(cast.lead, "retrain", "set", "vision/bytelm", str(policy)).stdout
    assert told == "vision/bytelm is retrained by this policy from now on.\n"
    listed = run_as(cast.member, "retrain", "list").output
    assert "bytelm" in listed
    assert cast.lead.username in listed
    assert "No cycle yet." in run_as(cast.viewer, "retrain", "show", "bytelm").output
    run_as(cast.lead, "retrain", "delete", "bytelm")
    assert not Policy.objects.exists()


def test_what_is_not_allowed_or_not_known_is_told_in_a_sentence(run_as: As, cast: Cast, policy: Path) -> None:
    refused = run_as(cast.member, "retrain", "set", "bytelm", str(policy), code=1)
    assert "lead" in refused.output
    assert "bytelm" in run_as(cast.outsider, "retrain", "show", "vision/bytelm", code=1).output
    assert "cycle-none" in run_as(cast.lead, "retrain", "approve", "cycle-none", code=1).output
    policy.write_text("max_age_days: [")
    assert "is not YAML" in run_as(cast.lead, "retrain", "set", "bytelm", str(policy), code=2).output
    policy.write_text("max_age_days: -1\nolder: 3\n")
    wrong = run_as(cast.lead, "retrain", "set", "bytelm", str(policy), code=1).output
    assert "max_age_days" in wrong
    assert "older" in wrong
