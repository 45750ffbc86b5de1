"""A job may use a version for the purposes and projects that it is approved for, and for no other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.datasets.access import Grant, Terms, Use, why_not, words


def refused(purpose: str, approved: str) -> str:
    return why_not(Use("vision", "", purpose), Terms("vision", words(approved)), (), 0)


@pytest.mark.parametrize(
    ("purpose", "approved"),
    [("train", "train"), ("eval", "train, eval"), (" train ", "train"), ("eval", "train,,eval,")],
)
def test_an_approved_purpose_is_let_through(purpose: str, approved: str) -> None:
    assert refused(purpose, approved) == ""


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
    assert refused(purpose, approved) == reason


def test_another_project_is_refused_and_both_are_named() -> None:
    terms = Terms("vision", ("train",), ("maps", "faces"))
    assert why_not(Use("vision", "faces", "train"), terms, (), 0) == ""
    reason = why_not(Use("vision", "cars", "train"), terms, (), 0)
    assert reason == "it is approved for the project maps, faces, and the job's project is cars"


def test_another_team_needs_a_grant_for_its_purpose_and_project() -> None:
    terms, use = Terms("vision", ("train",)), Use("nlp", "chat", "train")
    assert why_not(use, terms, (), 0) == "it belongs to team vision, and the job is of team nlp"
    assert why_not(use, terms, [Grant("nlp", "", "train")], 0) == ""
    assert why_not(use, terms, [Grant("nlp", "chat", "train")], 0) == ""
    assert why_not(use, terms, [Grant("nlp", "search", "train")], 0) != ""
    assert why_not(use, terms, [Grant("nlp", "", "eval")], 0) != ""


def test_a_grant_ends_at_its_time_and_the_reason_says_so() -> None:
    terms, use, grant = (
        Terms("vision", ("eval",)),
        Use("vision", "", "train"),
        Grant("vision", "", "train", 100),
    )
    assert why_not(use, terms, [grant], 99) == ""
    assert why_not(use, terms, [grant], 100) == (
        "it is approved for eval, and the job's purpose is train; a grant for this use has expired"
    )


NAMES = st.sampled_from(["", "a", "b"])
USES = st.builds(Use, NAMES, NAMES, NAMES)
TERMS = st.builds(Terms, NAMES, st.lists(NAMES).map(tuple), st.lists(NAMES).map(tuple))
GRANTS = st.lists(st.builds(Grant, NAMES, NAMES, NAMES, st.integers(0, 3)))


@given(USES, TERMS, GRANTS, st.integers(0, 3))
def test_only_terms_or_a_grant_in_force_let_a_use_through(
    use: Use, terms: Terms, grants: list[Grant], now: int
) -> None:
    by_terms = (
        use.team == terms.team
        and use.purpose in terms.purposes
        and (not terms.projects or use.project in terms.projects)
    )
    by_grant = any(grant.covers(use) and not 0 < grant.expires_ms <= now for grant in grants)
    assert (why_not(use, terms, grants, now) == "") == (by_terms or by_grant)
