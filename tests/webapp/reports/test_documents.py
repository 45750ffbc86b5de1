"""The text of a report: prose and blocks, and what is wrong with a block."""

import pytest

from webapp.pages.reports.document import MOST_EMBEDS, Embed, Prose, embeds, parts

TEXT = """\
# Result

```chart
runs: state = "succeeded" and tags.note = "a: b"
metric: val/loss
```

between

```python
print("code stays code")
```

```runs
columns: params.lr, metrics.loss
```
"""


def test_prose_and_blocks_alternate_in_their_order() -> None:
    shown = parts(TEXT)
    assert [type(part) for part in shown] == [Prose, Embed, Prose, Embed]
    chart, table = embeds(TEXT)
    assert chart.options == {"runs": 'state = "succeeded" and tags.note = "a: b"', "metric": "val/loss"}
    assert (chart.number, chart.problem, table.number, table.kind) == (1, "", 2, "runs")
    code = shown[2]
    assert isinstance(code, Prose)
    assert "print(" in code.html


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("```chart\nruns: x\n```", "needs a line “metric: …”"),
        ("```chart\nmetric: loss\ncolour: red\n```", "has no 'colour'"),
        ("```runs\njust words\n```", "is no line of the form “name: value”"),
        ("```image\nrun: a\n```", "needs a line “file: …”"),
    ],
)
def test_what_is_wrong_with_a_block_is_a_sentence(block: str, words: str) -> None:
    (embed,) = embeds(block)
    assert words in embed.problem


def test_a_block_inside_a_list_or_another_block_is_code() -> None:
    assert embeds("- item\n\n  ```chart\n  metric: loss\n  ```\n") == []
    assert embeds("````text\n```chart\nmetric: loss\n```\n````") == []


def test_a_report_with_too_many_blocks_shows_the_first_of_them() -> None:
    text = "```runs\n```\n\n" * (MOST_EMBEDS + 1)
    assert [embed.problem != "" for embed in embeds(text)] == [False] * MOST_EMBEDS + [True]


def test_the_highest_heading_of_a_text_stands_just_below_the_title() -> None:
    prose, _ = parts("### Curves\n\n#### Later\n\n```runs\n```")
    assert isinstance(prose, Prose)
    assert "<h2>Curves</h2>" in prose.html
    assert "<h3>Later</h3>" in prose.html
