"""These tests give slots to attempts that no job has."""

import pytest


@pytest.fixture
def books_agree(db: None) -> None:
    """Takes the place of the check that compares the slots with the jobs that run."""
