"""Static files: where plotly.min.js comes from, and how collected files are bundled, named and compressed."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage
from whitenoise.storage import CompressedManifestStaticFilesStorage

PATH = "plotly/plotly.min.js"
STYLESHEET = "css/trainmaster.css"


class PlotlyFinder(BaseFinder):
    """Finds `plotly/plotly.min.js` in the installed plotly package: no third-party asset is copied into the project."""

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path != PATH:
            return [] if find_all else None
        path_of_plotly = str(files("plotly") / "package_data" / "plotly.min.js")
        return [path_of_plotly] if find_all else path_of_plotly

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        storage = FileSystemStorage(location=str(files("plotly") / "package_data"))
        storage.prefix = "plotly"  # type: ignore[attr-defined]
        yield "plotly.min.js", storage


class HashedFiles(CompressedManifestStaticFilesStorage):
    """Makes one file of the stylesheet, and puts a hash of the content into each name.

    Also where one of our ES modules imports another; the files of packages import nothing.
    """

    support_js_module_import_aggregation = True
    _js_module_import_aggregation_patterns = (
        "js/*.js",
        CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1],
    )

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:
        if not dry_run:
            sheet = Path(self.path(STYLESHEET))
            sheet.write_text(
                re.sub(
                    r'@import "(.+)";',
                    lambda imported: (sheet.parent / imported[1]).read_text(),
                    sheet.read_text(),
                )
            )
            paths = {**paths, STYLESHEET: (self, STYLESHEET)}
        yield from super().post_process(paths, dry_run=dry_run, **options)
