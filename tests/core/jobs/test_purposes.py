"""A job may use a snapshot for the purposes that it is approved for, and for no other."""

import pytest

from platform_core.jobs.purposes import why_not


@pytest.mark.parametrize(
    ("purpose", "approved"),
    [("train", "train"), ("eval", "train, eval"), (" train ", "train"), ("eval", "train,,eval,")],
)
def test_an_approved_purpose_is_let_through(purpose: str, approved: str) -> None:
    assert why_not(purpose, approved) == ""


@pytest.mark.parametrize(
    ("purpose", "approved", "reason"),
    [
        ("train", "eval", "it is approved for eval, and the job's purpose is train"),
        ("train", "eval , report", "it is approved for eval, report, and the job's purpose is train"),
        ("Train", "train", "it is approved for train, and the job's purpose is Train"),
        ("tra", "train", "it is approved for train, and the job's purpose is tra"),
        (
            "train, eval",
            "train, eval",
            "it is approved for train, eval, and the job's purpose is train, eval",
        ),
        ("train", " , ", "it is approved for nothing, and the job's purpose is train"),
        ("  ", "train", "it is approved for train, and the job's purpose is not given"),
    ],
)
def test_any_other_is_refused_and_both_are_named(purpose: str, approved: str, reason: str) -> None:
    assert why_not(purpose, approved) == reason
