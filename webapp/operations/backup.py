"""`trainmaster backup` and `trainmaster restore`: everything that cannot be made again, in one file."""

import datetime
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from webapp.operations import dump, missing
from webapp.operations.archive import (
    COLD_STORE,
    DATABASE,
    STORE,
    ArchiveError,
    Manifest,
    Writer,
    extract,
    read_manifest,
    refuse_newer,
)
from webapp.operations.dump import DumpError
from webapp.operations.embedded import EmbeddedError, Postgres, running
from webapp.operations.state_folder import (
    StateFolder,
    StateFolderError,
    read_environment,
    recorded_process,
    write_environment,
)

# Beside the database and the store: what a platform cannot make again, or would make anew and lock people out.
SECRETS = "secrets.env"
FOLDERS = ("certificates", "hooks")
# Of the target, when its database cluster stays: the cluster knows only its own passwords.
PASSWORDS = ("POSTGRES_PASSWORD", "VALKEY_PASSWORD")

DIR = click.option(
    "--dir", "folder", default="var", show_default=True, type=Path, help="Folder of `trainmaster up`."
)
DATABASE_URL = click.option(
    "--database-url", envvar="DATABASE_URL", default="", help="A PostgreSQL of your own.  [env: DATABASE_URL]"
)
STORE_URL = click.option(
    "--store-url", envvar="TRAINMASTER_STORE_URL", default="",
    help="Where the bytes lie, if not in DIR/store.  [env: TRAINMASTER_STORE_URL]",
)  # fmt: skip
COLD_STORE_URL = click.option(
    "--cold-store-url", envvar="TRAINMASTER_COLD_STORE_URL", default="",
    help="Where the bytes of the cold store lie.  [env: TRAINMASTER_COLD_STORE_URL]",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where one platform keeps what it has."""

    folder: StateFolder
    database_url: str  # empty: the one embedded in the folder
    store_url: str
    cold_store_url: str = ""  # empty: there is none

    @property
    def store(self) -> Path | None:
        """None where the bytes lie in S3."""
        return _folder(self.store_url)

    @property
    def cold_store(self) -> Path | None:
        return _folder(self.cold_store_url)

    @property
    def embedded(self) -> bool:
        return not self.database_url


def _folder(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def place(folder: Path, database_url: str, store_url: str, cold_store_url: str = "") -> Place:
    state = StateFolder(folder.absolute())
    return Place(state, database_url, store_url or state.store.as_uri(), cold_store_url)


def _as_last_started(folder: Path, database_url: str, store_url: str, cold_store_url: str) -> Place:
    """What is not named is where the last `trainmaster up` in this folder had it."""
    path = folder.absolute() / "platform.env"
    before = read_environment(path) if path.exists() else {}
    if not database_url and not (folder / "postgres" / "data").exists():
        database_url = before.get("DATABASE_URL", "")
        if not database_url:
            raise ArchiveError(f"{folder} holds no platform. Name its folder with --dir, or --database-url.")
    return place(
        folder, database_url, store_url or before.get("TRAINMASTER_STORE_URL", ""),
        cold_store_url or before.get("TRAINMASTER_COLD_STORE_URL", ""),
    )  # fmt: skip


@click.command()
@click.argument("archive", type=Path, required=False)
@DIR
@DATABASE_URL
@STORE_URL
@COLD_STORE_URL
@click.option("--without-store", is_flag=True, help="Leave out checkpoints, models, datasets and logs.")
@click.option("--without-cold-store", is_flag=True, help="Leave out what has moved to the cold store.")
def backup(
    archive: Path | None, folder: Path, database_url: str, store_url: str, cold_store_url: str,
    without_store: bool, without_cold_store: bool,
) -> None:  # fmt: skip
    """Write database, stores, certificates and secrets into one file; the platform may run meanwhile.

    ARCHIVE is trainmaster-DATE.tar in the current folder unless named. Keep it as secret as the platform itself.
    """
    now = datetime.datetime.now(datetime.UTC)
    archive = archive or Path(f"trainmaster-{now:%Y-%m-%dT%H%M%S}Z.tar")
    with _errors_in_words():
        source = _as_last_started(folder, database_url, store_url, cold_store_url)
        if archive.exists():
            raise ArchiveError(f"{archive} exists already; choose another name.")
        store = None if without_store else source.store
        cold_store = None if without_store or without_cold_store else source.cold_store
        manifest = Manifest(
            version("trainmaster"), now.isoformat(timespec="seconds"), source.store_url, store is not None,
            source.cold_store_url, cold_store is not None,
        )  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="trainmaster-backup-") as scratch:
            dumped = Path(scratch) / DATABASE
            with database(source) as url:
                dump.dump(url, dumped)
            # After the database: every file that a row names is there.
            with Writer(archive, manifest) as writer:
                writer.add(DATABASE, dumped)
                if (secrets := source.folder.path / SECRETS).exists():
                    writer.add(SECRETS, secrets)
                for name in FOLDERS:
                    writer.add_folder(name, source.folder.path / name)
                # What moves meanwhile is a day in both.
                for name, store_folder in ((STORE, store), (COLD_STORE, cold_store)):
                    if store_folder is not None:
                        writer.add_folder(name, store_folder)
    _report(archive, manifest, without_store)


def _report(archive: Path, manifest: Manifest, without_store: bool) -> None:
    size = sum(size for size, _ in manifest.files.values())
    click.echo(f"{archive}: {len(manifest.files)} files, {size:,} bytes, Trainmaster {manifest.version}.")
    if without_store:
        click.echo("Without the store: checkpoints, models, datasets and logs are not in it.")
    elif not manifest.with_store:
        click.echo(f"The bytes in {manifest.store_url} are not in it: copy or version the bucket as well.")
    if manifest.cold_store_url and not manifest.with_cold_store:
        click.echo(
            f"The bytes of the cold store, {manifest.cold_store_url}, are not in it: copy them as well."
        )
    if SECRETS in manifest.files:
        click.echo(
            "It holds the secret keys and passwords of the platform; only you can read it. Keep it that way.",
            err=True,
        )
    else:
        click.echo(
            "It holds no secret keys, because they are not kept in the folder: keep TRAINMASTER_SECRETS_KEY yourself, "
            "without it the secrets of the teams are lost.",
            err=True,
        )


@click.command()
@click.argument("archive", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@DIR
@DATABASE_URL
@STORE_URL
@COLD_STORE_URL
@click.option("--force", is_flag=True, help="Replace a database and stores that hold something.")
def restore(
    archive: Path, folder: Path, database_url: str, store_url: str, cold_store_url: str, force: bool
) -> None:
    """Bring back what `trainmaster backup` has written, on this machine or another one.

    Stop the platform first, and start it afterwards: it brings the tables of an older version up to date.
    """
    with _errors_in_words():
        manifest = read_manifest(archive)
        if not cold_store_url:
            fresh_cold = (folder.absolute() / COLD_STORE).as_uri()
            cold_store_url = fresh_cold if manifest.with_cold_store else manifest.cold_store_url
        target = place(folder, database_url, store_url, cold_store_url)
        refuse_newer(manifest, version("trainmaster"))
        _refuse_what_holds_something(target, manifest, force)
        if target.embedded:
            target.folder.claim()  # and refuses a platform that runs
        target.folder.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=target.folder.path) as scratch:
            fresh = Path(scratch)
            extract(archive, manifest, fresh)  # all is verified before anything is replaced
            _place_files(fresh, target, manifest)
            with database(target) as url:
                if dump.has_tables(url):
                    dump.clear(url)
                dump.restore(url, fresh / DATABASE)
                dump.move_addresses(url, manifest.store_url, target.store_url)
                if manifest.cold_store_url:
                    dump.move_addresses(url, manifest.cold_store_url, target.cold_store_url)
                absent = list(_absent(url, target))
    click.echo(f"Restored the backup of {manifest.created} into {target.folder.path}.")
    if not manifest.with_store:
        click.echo(f"It had no store: the bytes are expected in {target.store_url}.")
    if manifest.cold_store_url and not manifest.with_cold_store:
        click.echo(f"It had no cold store: its bytes are expected in {target.cold_store_url}.")
    for line in absent:
        click.echo(line)
    cold = f" --cold-store-url {target.cold_store_url}" if target.cold_store_url else ""
    if target.embedded:
        click.echo(f"Start it with: trainmaster up --dir {folder}{cold}")
    elif cold:
        click.echo(f"Start it with TRAINMASTER_COLD_STORE_URL={target.cold_store_url}")


def _absent(url: str, target: Place) -> Iterator[str]:
    """What the database names and the stores do not have."""
    for store_url, store in ((target.store_url, target.store), (target.cold_store_url, target.cold_store)):
        if store is not None and (found := missing.in_folder(url, store_url)):
            yield f"Missing in {store_url}: {found}."
        elif store is None and store_url:
            yield f"Whether {store_url} has all of its files was not looked at."


def _refuse_what_holds_something(target: Place, manifest: Manifest, force: bool) -> None:
    if force:
        return
    if target.embedded and (target.folder.path / "postgres" / "data").exists():
        raise ArchiveError(f"{target.folder.path} holds a platform already; --force replaces it.")
    if not target.embedded and dump.has_tables(target.database_url):
        raise ArchiveError("The database holds tables already; --force replaces all of them.")
    for held, store in ((manifest.with_store, target.store), (manifest.with_cold_store, target.cold_store)):
        if held and store and store.is_dir() and any(store.iterdir()):
            raise ArchiveError(f"The store {store} is not empty; --force replaces it.")


def _place_files(fresh: Path, target: Place, manifest: Manifest) -> None:
    stores = (
        (manifest.with_store, STORE, target.store, target.store_url, "--store-url"),
        (manifest.with_cold_store, COLD_STORE, target.cold_store, target.cold_store_url, "--cold-store-url"),
    )
    for held, name, store, store_url, option in stores:
        if held and store is None:
            raise ArchiveError(
                f"The backup holds the bytes of a store, and {store_url} is no folder: "
                f"restore with {option} file:///FOLDER and copy them into the bucket."
            )
        if held and store is not None:
            shutil.rmtree(store, ignore_errors=True)
            _move(fresh / name, store)
    if (fresh / SECRETS).exists():
        path = target.folder.path / SECRETS
        keep = target.embedded and (target.folder.path / "postgres" / "data").exists() and path.exists()
        before = read_environment(path) if keep else {}
        own = {name: value for name, value in before.items() if name in PASSWORDS}
        write_environment(path, read_environment(fresh / SECRETS) | own)
    for name in FOLDERS:
        if (fresh / name).exists():
            shutil.rmtree(target.folder.path / name, ignore_errors=True)
            _move(fresh / name, target.folder.path / name)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.exists():
        shutil.move(source, target)
    target.mkdir(exist_ok=True)
    target.chmod(0o700)


@contextmanager
def database(source: Place) -> Iterator[str]:
    """The address of the database; one that is embedded and does not run is started for the while."""
    if not source.embedded:
        yield source.database_url
        return
    state = source.folder
    if recorded_process(state.path / "postgres.pid"):
        yield read_environment(state.path / "platform.env")["DATABASE_URL"]
        return
    state.claim()
    postgres = Postgres(
        state.path / "postgres",
        state.ports(agents=0, web=0).postgres,
        state.secrets()["POSTGRES_PASSWORD"],
        state.logs / "postgres.log",
    )
    with running(postgres):
        yield postgres.url


@contextmanager
def _errors_in_words() -> Iterator[None]:
    try:
        yield
    except (ArchiveError, DumpError, EmbeddedError, StateFolderError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}.") from error
