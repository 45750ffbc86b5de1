"""What every template keeps: nothing that the Content-Security-Policy would refuse, and fragments that exist."""

import re
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).parents[3] / "templates"
FILES = sorted(TEMPLATES.rglob("*.html"))
INLINE = re.compile(
    r"""\sstyle=|\son[a-z]+=|<style|javascript:|<script(?![^>]*\bsrc=)|hx-on|https?://(?!www\.w3\.org)"""
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_template_has_nothing_inline_and_nothing_from_another_host(path: Path) -> None:
    assert INLINE.findall(path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_fragment_that_a_page_fetches_is_one_of_its_blocks(path: Path) -> None:
    """Of the template itself, or of one beside it that includes it."""
    asked = set(re.findall(r"{% fragment '([a-z]+)' %}", path.read_text()))
    beside = [other for other in FILES if other.parent == path.parent]
    assert asked <= {
        name for other in beside for name in re.findall(r"{% block ([a-z]+) %}", other.read_text())
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_live_element_says_how_it_is_fetched_and_swapped(path: Path) -> None:
    for tag in re.findall(r"<[a-z]+ [^<]*hx-trigger=\"live\"[^<]*>", path.read_text()):
        assert "data-live=" in tag
        assert 'hx-swap="morph"' in tag
        assert "hx-get=" in tag
