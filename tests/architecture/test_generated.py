"""What is made from something else is committed, and equal to what would be made now."""

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.rules.sources import ROOT
from tools import proto


def test_the_wire_package_is_what_its_protos_make(tmp_path: Path) -> None:
    (tmp_path / "trainmaster_wire").mkdir()
    proto.generate(tmp_path)
    fresh, committed = generated(tmp_path), generated(ROOT / "proto")
    assert fresh.keys() == committed.keys(), "run `make proto`"
    assert [name for name in fresh if fresh[name] != committed[name]] == [], "run `make proto`"


def test_generated_modules_import_each_other_by_their_full_name() -> None:
    for name, text in generated(ROOT / "proto").items():
        wrong = [
            line
            for line in text.splitlines()
            if line.startswith(("import agent", "from agent", "from v1", "import v1"))
        ]
        assert not wrong, name


def generated(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for pattern in proto.GENERATED
        for path in folder.rglob(pattern)
    }


def test_the_migrations_say_what_the_models_say() -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "tests.support.static_settings", "PYTHONPATH": str(ROOT)}
    # The address in these settings leads nowhere: the comparison needs no database, only a warning says it is away.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "manage.py", "makemigrations", "--check", "--dry-run"],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
