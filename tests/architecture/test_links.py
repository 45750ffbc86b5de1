"""The documents lead where they say."""

from pathlib import Path

import pytest

from tests.architecture.rules import links
from tests.architecture.rules.sources import ROOT

PAGES = [
    *ROOT.glob("*.md"),
    *(page for folder in ("docs", "benchmarks", "examples") for page in (ROOT / folder).rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    assert list(links.broken(page)) == []


def test_every_document_is_linked_from_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")} - {
        "README.md"
    }
    assert sorted(page for page in pages if f"({page})" not in index) == []


def test_a_link_to_a_missing_file_and_to_a_missing_heading_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# There\n\n## What `it` is, now\n\n```\n# not a heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](gone.md) [c](there.md#what-it-is-now) [d](there.md#not-a-heading) "
        "[e](https://example.org/gone) [f](#page) `[g](gone.md)`\n\n# Page\n"
    )
    assert list(links.broken(page)) == [
        "page.md: gone.md does not exist",
        "page.md: there.md#not-a-heading has no such heading",
    ]
