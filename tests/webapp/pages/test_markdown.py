"""Text in Markdown becomes HTML that runs nothing and fetches nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.pages.markdown import render


def test_headings_lists_tables_and_code_are_rendered() -> None:
    page = render("# Result\n\n- one\n- two\n\n| run | loss |\n| --- | ---: |\n| a | `1.2` |\n")
    assert "<h3>Result</h3>" in page
    assert "<li>one</li>" in page
    assert '<td class="n"><code>1.2</code></td>' in page


def test_a_link_to_elsewhere_does_not_say_where_the_reader_came_from() -> None:
    assert 'rel="noopener noreferrer nofollow"' in render("[paper](https://example.org/paper)")


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[here](javascript:alert(1))",
        "[here](  JaVaScRiPt:alert(1))",
        "<javascript:alert(1)>",
        "![spy](https://example.org/spy.png)",
        "[here](data:text/html;base64,PHNjcmlwdD4=)",
        '[here](https://example.org "><script>alert(1)</script>")',
        '```"><script>alert(1)</script>\ncode\n```',
        "[a]: javascript:alert(1)\n\n[a]",
        '<a href="https://example.org" style="position:fixed">everywhere</a>',
    ],
)
def test_html_scripts_and_images_of_people_stay_text(text: str) -> None:
    page = render(text).lower()
    for tag in ("<script", "<img", "<iframe", "<style", 'href="javascript', 'href="data', "<a style"):
        assert tag not in page, page


@given(st.text(alphabet="<>[]()`\"'!#*_|-= \naszjavscript:/&;", max_size=200))
def test_no_text_opens_an_element_that_is_not_on_the_list(text: str) -> None:
    page = render(text).lower()
    assert not any(f"<{tag}" in page for tag in ("script", "img", "style", "iframe", "svg", "form", "input"))
