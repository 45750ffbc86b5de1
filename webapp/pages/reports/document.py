"""The text of a report: Markdown, and fenced blocks that stand for a chart, a table of runs or an image.

```chart
runs: tags.stage = "prod"
metric: val/loss
```

A line is `name: value`. What is wrong with a block is a sentence in its place; the rest of the report is shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.safestring import SafeString
from markdown_it.token import Token

from webapp.pages import markdown

MOST_EMBEDS = 40  # of a report: each is a search

# The options of each kind of block, those that it needs first.
_RUNS = ("runs", "experiment", "most", "order")
OPTIONS = {
    "chart": (("metric",), ("title", "x", "smooth", "scale", *_RUNS)),
    "runs": ((), ("title", "columns", *_RUNS)),
    "image": (("run", "file"), ("title",)),
}


@dataclass(frozen=True, slots=True)
class Prose:
    html: SafeString


@dataclass(frozen=True, slots=True)
class Embed:
    number: int  # among those of the report, from 1
    kind: str
    options: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""  # what is wrong with the block


def parts(text: str) -> list[Prose | Embed]:
    return list(_parts(markdown.tokens(text)))


def embeds(text: str) -> list[Embed]:
    return [part for part in parts(text) if isinstance(part, Embed)]


def _parts(tokens: Sequence[Token]) -> Iterator[Prose | Embed]:
    """The highest heading of the text becomes one of the second level, below the title of the page."""
    begin, number = 0, 0
    heading = 3 - min((int(token.tag[1]) for token in tokens if token.type == "heading_open"), default=1)
    for place, token in enumerate(tokens):
        kind = token.info.strip()
        if token.type != "fence" or token.level or kind not in OPTIONS:
            continue
        if begin < place:
            yield Prose(markdown.html(tokens[begin:place], heading=heading))
        begin, number = place + 1, number + 1
        yield _embed(number, kind, token.content)
    if begin < len(tokens):
        yield Prose(markdown.html(tokens[begin:], heading=heading))


def _embed(number: int, kind: str, content: str) -> Embed:
    if number > MOST_EMBEDS:
        return Embed(
            number, kind, problem=f"A report shows at most {MOST_EMBEDS} blocks; this one is left out."
        )
    options: dict[str, str] = {}
    needed, others = OPTIONS[kind]
    for line in filter(str.strip, content.splitlines()):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            return Embed(number, kind, problem=f"{line.strip()[:60]!r} is no line of the form “name: value”.")
        if name not in needed + others:
            known = ", ".join(needed + others)
            return Embed(number, kind, problem=f"A {kind} block has no {name[:40]!r}; it knows {known}.")
        options[name] = value
    for name in needed:
        if not options.get(name):
            return Embed(number, kind, options, f"A {kind} block needs a line “{name}: …”.")
    return Embed(number, kind, options)
