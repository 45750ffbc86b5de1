"""Serves plotly.min.js from the installed plotly package: no third-party asset is copied into the project."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

PATH = "plotly/plotly.min.js"


class PlotlyFinder(BaseFinder):
    """Finds exactly one file, `plotly/plotly.min.js`."""

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path != PATH:
            return [] if find_all else None
        found = str(files("plotly") / "package_data" / "plotly.min.js")
        return [found] if find_all else found

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        storage = FileSystemStorage(location=str(files("plotly") / "package_data"))
        storage.prefix = "plotly"  # type: ignore[attr-defined]
        yield "plotly.min.js", storage
