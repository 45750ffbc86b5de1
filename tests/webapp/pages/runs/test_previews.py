"""A file of a run is shown as what it is, bounded, and nothing of it runs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.pages.runs import previews
from webapp.pages.runs.previews import Preview, preview

NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Look\n", "<script>alert(1)</script>"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"text/html": "<b>no</b>", "image/png": "aGk=\n"}},
            ],
        },
    ]
}


def of(name: str, content: bytes | str) -> Preview:
    data = content.encode() if isinstance(content, str) else content
    return preview(name, len(data), lambda count: data[:count])


def test_text_code_json_and_markdown_are_told_apart() -> None:
    kinds = {
        name: of(name, '{"a": 1}').kind for name in ("a.txt", "train.py", "a.json", "README.md", "plain")
    }
    assert kinds == {
        "a.txt": "text",
        "train.py": "code",
        "a.json": "json",
        "README.md": "markdown",
        "plain": "text",
    }


def test_a_table_shows_its_first_rows() -> None:
    shown = of("eval.csv", "step,loss\n" + "".join(f"{step},{step / 2}\n" for step in range(1000)))
    assert shown.table is not None
    assert (shown.table.head, len(shown.table.rows), shown.table.is_cut) == (["step", "loss"], 200, True)


def test_a_notebook_shows_its_cells_and_outputs_without_html() -> None:
    prose, code = of("look.ipynb", json.dumps(NOTEBOOK)).cells
    assert "<script" not in prose.html
    assert (code.text, code.outputs, code.images) == ("print(1)", ["1\n"], ["data:image/png;base64,aGk="])


def test_an_image_of_pixels_is_shown_and_an_svg_is_code() -> None:
    assert of("curve.PNG", b"\x89PNG").kind == "image"
    assert of("curve.svg", "<svg onload='alert(1)'/>").kind == "code"
    assert of("page.html", "<script>alert(1)</script>").kind == "code"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("profile-1-rank-0.json.gz", "trace"),
        ("artifact/memory-12-rank-3.json.gz", "trace"),
        ("flame-2-rank-0.folded.txt", "flame"),
        ("profile-of-customers.json.gz", "none"),
    ],
)
def test_what_the_sdk_records_is_drawn_in_the_page(name: str, kind: str) -> None:
    assert of(name, b"\0 of gzip").kind == kind


def test_a_recording_that_would_fill_the_browser_is_for_download() -> None:
    shown = preview("profile-1-rank-0.json.gz", previews.RECORDING_BYTES + 1, lambda count: b"")
    assert shown == Preview("none", why="The recording is larger than 64 MiB.")


def test_a_long_text_is_cut_and_says_so() -> None:
    shown = of("log.txt", "line\n" * (previews.LINES + 1))
    assert (shown.is_cut, len(shown.text.splitlines())) == (True, previews.LINES)


def test_only_the_beginning_of_a_large_file_is_read() -> None:
    asked: list[int] = []

    def read(count: int) -> bytes:
        asked.append(count)
        return b"x" * count

    assert preview("huge.txt", 10**12, read).is_cut
    assert asked == [previews.READ_BYTES]


def test_bytes_that_are_no_text_are_for_download() -> None:
    assert of("weights.bin", b"\0\1\2").kind == "none"


@pytest.mark.parametrize("content", ["{", '{"cells": 5}', '{"cells": [1]}', "[" * 3000 + "]" * 3000, "[]"])
def test_a_broken_notebook_is_shown_as_text(content: str) -> None:
    assert of("broken.ipynb", content).kind == "text"


@given(
    st.sampled_from(["a.csv", "a.tsv", "a.json", "a.ipynb", "a.md", "a.txt", "a.py", "a"]),
    st.binary(max_size=300),
)
def test_no_bytes_break_a_preview(name: str, content: bytes) -> None:
    of(name, content)
