"""Markdown that people write, as HTML: CommonMark with tables, no HTML of theirs, no images from elsewhere."""

from collections.abc import Sequence

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

LENGTH = 200_000  # a longer text is cut: it is shown with the rest of a page
_TEXT = {"a", "blockquote", "br", "code", "del", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "ul"}
_TAGS = _TEXT | {"h1", "h2", "h3", "h4", "h5", "h6"} | {"table", "tbody", "td", "th", "thead", "tr"}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}, "th": {"class"}, "td": {"class"}}
_ALIGNMENTS = {"text-align:right": "n"}  # the Content-Security-Policy refuses style attributes


def _parser() -> MarkdownIt:
    # An image of another server would tell it who reads the page.
    return (
        MarkdownIt("commonmark", {"html": False, "linkify": False})
        .enable(["table", "strikethrough"])
        .disable("image")
    )


_MARKDOWN = _parser()


def tokens(text: str) -> list[Token]:
    return _MARKDOWN.parse(text[:LENGTH])


def html(parsed: Sequence[Token], *, heading: int = 2) -> SafeString:
    """The sanitised HTML of tokens. Headings begin at the level `heading`, below those of the page."""
    for token in parsed:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + heading - 1)}"
        elif (style := token.attrs.pop("style", None)) and (name := _ALIGNMENTS.get(str(style))):
            token.attrs["class"] = name
    rendered = _MARKDOWN.renderer.render(parsed, _MARKDOWN.options, {})
    clean = nh3.clean(
        rendered,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(clean)  # noqa: S308  the sanitiser made it


def render(text: str, *, heading: int = 3) -> SafeString:
    return html(tokens(text), heading=heading)
