"""A platform with data in it, backed up and restored for real: the same rows and the same bytes, elsewhere."""

import json
import shutil
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from webapp.operations import backup, up
from webapp.operations.archive import read_manifest
from webapp.operations.state_folder import StateFolder

pytestmark = pytest.mark.slow

NONE = up.Options(
    agents=0, slots=0, port=0, database_url="", redis_url="", store_url="", tls=True, quiet=True
)
BYTES = b"weights " * 5000
SEED = f"""
import io
from django.core.management import call_command
from webapp.accounts import queries as accounts
from webapp.accounts.models import User
from webapp.accounts import services
from webapp.artifacts import services as artifacts
from webapp.jobs import services as jobs
call_command("seed_demo")
bob = accounts.actor_of(User.objects.get(username="bob"))
alice = accounts.actor_of(User.objects.get(username="alice"))
services.set_secret(alice, "vision", "HF_TOKEN", "hf_kept")
upload = artifacts.start_upload(bob, "vision", "model", "bytes")
artifacts.receive_file(bob, upload.id, "model.bin", io.BytesIO({BYTES[:8]!r} * 5000))
print(artifacts.complete_upload(bob, upload.id).id)
jobs.submit(bob, {{"name": "first", "team": "vision", "command": "python t.py", "num_gpus": 1, "gpu_type": "cpu"}})
"""


@dataclass(frozen=True)
class Platform:
    """The databases of a state folder while they run."""

    folder: StateFolder
    environment: dict[str, str]

    @property
    def url(self) -> str:
        return self.environment["DATABASE_URL"]

    def manage(self, *command: str) -> None:
        up.manage(self.folder, ("python", "manage.py", *command), self.environment)

    def tables(self) -> dict[str, str]:
        """The digest of the rows of each table, without the address of the store."""
        return digests(self.url, self.environment["TRAINMASTER_STORE_URL"])


def digests(url: str, store_url: str) -> dict[str, str]:
    names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    rows = "SELECT md5(string_agg(replace(t::text, %s, ''), '|' ORDER BY t::text)) FROM {} t"
    with psycopg.connect(url) as connection:
        return {
            name: str(connection.execute(rows.format(name), [store_url]).fetchone())  # type: ignore[arg-type]
            for (name,) in connection.execute(names).fetchall()
        }


def running(path: Path) -> Iterator[Platform]:
    folder = StateFolder(path)
    folder.claim()
    ports, secrets = folder.ports(agents=0, web=0), folder.secrets()
    with up.databases(folder, ports, secrets, NONE) as (urls, _):
        environment = up.shared_environment(folder, ports, secrets, NONE) | urls | up.encryption(folder, NONE)
        up.write_environment(path / "platform.env", environment)
        yield Platform(folder, environment)


@pytest.fixture(scope="module")
def source(passable: Path) -> Iterator[Platform]:
    for platform in running(passable / "source"):
        platform.manage("migrate", "--noinput")
        platform.manage("shell", "--no-imports", "-c", SEED)
        yield platform


@pytest.fixture
def archive(source: Platform, tmp_path: Path) -> Path:
    path = tmp_path / "backup.tar"
    result = invoke("backup", path, "--dir", source.folder.path)
    assert result.exit_code == 0, result.output
    assert "secret keys" in result.output
    return path


@pytest.fixture
def target(passable: Path) -> Iterator[Path]:
    yield passable / "target"
    shutil.rmtree(passable / "target", ignore_errors=True)


def invoke(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(getattr(backup, command), [str(argument) for argument in arguments])


def files(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_a_restore_elsewhere_has_the_same_rows_bytes_and_secrets(
    source: Platform, archive: Path, target: Path
) -> None:
    result = invoke("restore", archive, "--dir", target)
    assert result.exit_code == 0, result.output
    assert f"trainmaster up --dir {target}" in result.output
    before = source.folder.path
    for platform in running(target):
        assert platform.tables() == source.tables()
        platform.manage("migrate", "--check")
        platform.manage("check_books")
        with psycopg.connect(platform.url) as connection:
            row = connection.execute("SELECT source_url FROM artifacts_manifest").fetchone()
            assert row is not None
            assert Path(str(row[0]).removeprefix("file://"), "model.bin").read_bytes() == BYTES
            assert str(row[0]).startswith(target.as_uri())
    del platform  # and with it the lock of its folder
    assert files(target / "store") == files(before / "store") != {}
    assert files(target / "certificates") == files(before / "certificates") != {}
    assert (target / "secrets.env").read_text() == (before / "secrets.env").read_text()
    assert stat.S_IMODE((target / "secrets.env").stat().st_mode) == 0o600
    again = invoke("restore", archive, "--dir", target)
    assert again.exit_code == 1
    assert "holds a platform already; --force replaces it" in again.output
    forced = invoke("restore", archive, "--dir", target, "--force")
    assert forced.exit_code == 0, forced.output


def test_only_its_owner_reads_an_archive_and_none_is_overwritten(source: Platform, archive: Path) -> None:
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    result = invoke("backup", archive, "--dir", source.folder.path)
    assert result.exit_code == 1
    assert "exists already" in result.output


def test_a_database_of_ones_own_is_backed_up_and_restored(
    source: Platform, archive: Path, tmp_path: Path
) -> None:
    with psycopg.connect(source.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE own")
    url = source.url.rpartition("/")[0] + "/own"
    place = ("--dir", tmp_path / "none", "--store-url", (tmp_path / "bytes").as_uri(), "--database-url", url)
    result = invoke("restore", archive, *place)
    assert result.exit_code == 0, result.output
    assert digests(url, (tmp_path / "bytes").as_uri()) == source.tables()
    assert files(tmp_path / "bytes") == files(source.folder.store)
    refused = invoke("restore", archive, *place)
    assert "The database holds tables already; --force replaces all of them." in refused.output
    own = invoke("backup", tmp_path / "own.tar", "--dir", tmp_path / "empty", *place[2:])
    assert own.exit_code == 0, own.output
    assert "keep TRAINMASTER_SECRETS_KEY yourself" in own.output
    assert read_manifest(tmp_path / "own.tar").files.keys() == {
        name for name in read_manifest(archive).files if name == "database.dump" or name.startswith("store/")
    }


def test_without_the_store_the_archive_says_so_and_a_restore_too(source: Platform, tmp_path: Path) -> None:
    archive = tmp_path / "small.tar"
    result = invoke("backup", archive, "--dir", source.folder.path, "--without-store")
    assert "checkpoints, models, datasets and logs are not in it" in result.output
    assert not [name for name in read_manifest(archive).files if name.startswith("store/")]


def rewritten(archive: Path, change: str, content: bytes) -> Path:
    """The same archive with another content of one member."""
    changed = archive.with_name("changed.tar")
    with tarfile.open(archive) as old, tarfile.open(changed, "w") as new:
        for member in old:
            file = old.extractfile(member)
            assert file is not None
            if member.name == change:
                path = archive.with_name("member")
                path.write_bytes(content)
                new.add(path, arcname=change)
            else:
                new.addfile(member, file)
    return changed


def test_a_damaged_archive_changes_nothing(archive: Path, target: Path) -> None:
    size, _ = read_manifest(archive).files["database.dump"]
    result = invoke("restore", rewritten(archive, "database.dump", bytes(size)), "--dir", target)
    assert result.exit_code == 1
    assert "database.dump" in result.output
    assert "damaged" in result.output
    assert not (target / "postgres").exists()
    assert not (target / "secrets.env").exists()


def test_the_archive_of_a_newer_version_is_refused(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as tar:
        file = tar.extractfile("manifest.json")
        assert file is not None
        newer = json.dumps({**json.load(file), "version": "9.0.0"}).encode()
    result = invoke("restore", rewritten(archive, "manifest.json", newer), "--dir", target)
    assert result.exit_code == 1
    assert "made by Trainmaster 9.0.0" in result.output


def test_a_file_that_is_no_backup_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.tar").write_bytes(b"no tar at all")
    result = invoke("restore", tmp_path / "photo.tar", "--dir", tmp_path / "x")
    assert result.exit_code == 1
    assert "not a complete backup of Trainmaster" in result.output


def test_a_folder_without_a_platform_has_nothing_to_back_up(tmp_path: Path) -> None:
    result = invoke("backup", tmp_path / "a.tar", "--dir", tmp_path / "nothing")
    assert result.exit_code == 1
    assert "holds no platform" in result.output


def test_a_database_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    url = "postgresql://trainmaster:hunter2@127.0.0.1:1/trainmaster"
    result = invoke("backup", tmp_path / "a.tar", "--dir", tmp_path, "--database-url", url)
    assert result.exit_code == 1
    assert "pg_dump failed" in result.output
    assert "hunter2" not in result.output


@pytest.fixture
def cold(source: Platform, tmp_path: Path) -> Iterator[Path]:
    """The model has moved to a cold store, and its old files are still there."""
    with psycopg.connect(source.url, autocommit=True) as connection:
        row = connection.execute("SELECT id, source_url FROM artifacts_manifest").fetchone()
        assert row is not None
        key, url = row
        moved = (tmp_path / "cold").as_uri() + str(url).removeprefix(source.folder.store.as_uri())
        place = Path(moved.removeprefix("file://"))
        place.mkdir(parents=True)
        (place / "model.bin").write_bytes(BYTES)
        move = "UPDATE artifacts_manifest SET source_url = %s, moved_from = %s WHERE id = %s"
        connection.execute(move, [moved, url, key])
        yield tmp_path / "cold"
        connection.execute(move, [url, "", key])


def test_a_cold_store_comes_along(source: Platform, cold: Path, target: Path, tmp_path: Path) -> None:
    archive, cold_url = tmp_path / "whole.tar", cold.as_uri()
    made = invoke("backup", archive, "--dir", source.folder.path, "--cold-store-url", cold_url)
    assert made.exit_code == 0, made.output
    result = invoke("restore", archive, "--dir", target)
    assert result.exit_code == 0, result.output
    fresh = (target / "cold-store").as_uri()
    assert f"trainmaster up --dir {target} --cold-store-url {fresh}" in result.output
    assert "Missing" not in result.output
    assert files(target / "cold-store") == files(cold) != {}
    for platform in running(target):
        with psycopg.connect(platform.url) as connection:
            row = connection.execute("SELECT source_url, moved_from FROM artifacts_manifest").fetchone()
        assert row is not None
        assert str(row[0]).startswith(f"{fresh}/")
        assert str(row[1]).startswith((target / "store").as_uri())


def test_a_restore_without_the_cold_store_names_what_is_missing(
    source: Platform, cold: Path, target: Path, tmp_path: Path
) -> None:
    archive, elsewhere = tmp_path / "hot.tar", (tmp_path / "elsewhere").as_uri()
    options = ("--cold-store-url", cold.as_uri(), "--without-cold-store")
    made = invoke("backup", archive, "--dir", source.folder.path, *options)
    assert f"The bytes of the cold store, {cold.as_uri()}, are not in it" in made.output
    result = invoke("restore", archive, "--dir", target, "--cold-store-url", elsewhere)
    assert result.exit_code == 0, result.output
    assert f"It had no cold store: its bytes are expected in {elsewhere}." in result.output
    assert f"Missing in {elsewhere}: 1 file of 1 model, 39.1 KiB: {tmp_path}/elsewhere/" in result.output
