"""Every relative link of a Markdown page leads to a file, and its fragment to a heading there."""

import re
from collections.abc import Iterator
from pathlib import Path

_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SCHEME = re.compile(r"[a-z]+:")


def broken(page: Path) -> Iterator[str]:
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if _SCHEME.match(target):
            continue
        name, _, fragment = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            yield f"{page.name}: {target} does not exist"
        elif fragment and file.suffix == ".md" and fragment not in anchors(file):
            yield f"{page.name}: {target} has no such heading"


def anchors(page: Path) -> set[str]:
    """The fragments that GitHub gives to the headings of a page, and its explicit anchors."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))
