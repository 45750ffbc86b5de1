"""Record what a release promises to the next ones: `make release-snapshot`, once, when a version is tagged.

tests/releases/migrations.json  the SHA-256 of every migration; from then on they are only added to
tests/releases/database.dump    a database of this release with one of everything in it, which the tests upgrade
"""

import hashlib
import json
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASES = ROOT / "tests" / "releases"
MIGRATIONS, DATABASE = RELEASES / "migrations.json", RELEASES / "database.dump"


def migrations(root: Path) -> dict[str, str]:
    """The SHA-256 of each migration by its path."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.glob("webapp/*/migrations/[0-9]*.py"))
    }


def dump_database(target: Path) -> None:
    from tests.support import databases

    server = databases.provide()  # before anything imports a model
    from django.core.management import call_command

    from tests.webapp.conftest import make_cast, make_teams
    from tests.webapp.world import build
    from webapp.operations import dump

    call_command("migrate", verbosity=0)
    make_teams()
    build(make_cast())
    call_command("check_books")
    dump.dump(server.url, target)


def main() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    RELEASES.mkdir(exist_ok=True)
    dump_database(DATABASE)
    recorded = {"version": version, "migrations": migrations(ROOT)}
    MIGRATIONS.write_text(json.dumps(recorded, indent=1) + "\n")
    print(
        f"{len(recorded['migrations'])} migrations and {DATABASE.stat().st_size:,} bytes of data of {version}"
    )


if __name__ == "__main__":
    main()
