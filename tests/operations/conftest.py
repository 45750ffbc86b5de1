import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import surroundings


@pytest.fixture(scope="package", autouse=True)
def own_surroundings() -> Iterator[None]:
    """Every platform here brings its own databases, also when other packages have put theirs into the environment."""
    with surroundings.of_a_stranger():
        yield


@pytest.fixture(scope="package")
def passable() -> Iterator[Path]:
    """A folder that other accounts may pass through, as root's PostgreSQL must; pytest closes its own to them."""
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
