"""HTML as a browser reads it, so that tests do not depend on how a template is laid out."""

import re

from django.http import HttpResponse
from django.test import Client

_BLOCKS = (
    "html head body title meta link script style noscript div section nav main header footer aside article table "
    "caption colgroup col thead tbody tfoot tr th td ul ol li dl dt dd h1 h2 h3 h4 h5 h6 p form fieldset legend figure "
    "figcaption details summary option optgroup select textarea template hr pre dialog svg"
).replace(" ", "|")
_PREFORMATTED = re.compile(r"(<(pre|textarea|script|style)\b.*?</\2>)", re.DOTALL)
_AROUND_BLOCK = re.compile(rf"\s*(</?(?:{_BLOCKS})(?=[\s>/])(?:\"[^\"]*\"|'[^']*'|[^>\"'])*>)\s*")
_TAG_END = re.compile(r"\s+(/?>)")


def collapsed(html: str) -> str:
    """White space that a browser does not show is taken out, except inside <pre>, <textarea>, <script> and <style>."""
    parts = _PREFORMATTED.split(html)  # text, element, its name, text, …
    for index in range(0, len(parts), 3):
        text = _TAG_END.sub(r"\1", re.sub(r"\s+", " ", parts[index]))
        parts[index] = _AROUND_BLOCK.sub(r"\1", text)
    return "".join(part for index, part in enumerate(parts) if index % 3 != 2).strip()


class Browser(Client):
    """A client whose pages come with their white space collapsed."""

    def request(self, **request: object) -> HttpResponse:
        response = super().request(**request)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            response.content = collapsed(response.content.decode()).encode()
        return response
