"""The scrub finds what the store has lost before somebody needs it, and sees when it is whole again."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from agent.mending import write_back
from platform_core.errors import TrainmasterError
from platform_core.node.description import Telemetry
from platform_core.node.wanted import MendWanted
from platform_core.storage.scrub import LEAST_BYTES
from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from tests.webapp.world import World, build
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifact_queries
from webapp.artifacts import services as artifacts
from webapp.artifacts.models import Manifest
from webapp.base.identity import now_ms
from webapp.checkpoints.models import Checkpoint
from webapp.events.models import Event
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.rpc.wanted import manifests, wanted_states
from webapp.storage import mending, queries, scrub
from webapp.storage.models import Damage


@pytest.fixture
def world(cast: Cast, settings: Any, tmp_path: Path) -> World:
    settings.STORE_URL = tmp_path.as_uri()
    return build(cast)


@pytest.fixture
def weights(cast: Cast, world: World) -> Manifest:
    return upload(cast, {"a.bin": b"first", "b.bin": b"second"})


def upload(cast: Cast, files: dict[str, bytes]) -> Manifest:
    begun = artifacts.start_upload(actor_of(cast.owner), "vision", "model", "weights")
    for path, data in files.items():
        artifacts.receive_file(actor_of(cast.owner), begun.id, path, io.BytesIO(data))
    return artifacts.complete_upload(actor_of(cast.owner), begun.id)


def rot(tmp_path: Path, name: str, data: bytes | None) -> None:
    """The disk of the store gives other bytes than it was given; the file looks as it did."""
    (path,) = tmp_path.rglob(name)
    if data is None:
        path.unlink()
        return
    path.write_bytes(data)


def a_month_passes() -> None:
    Manifest.objects.update(checked_ms=now_ms() - 30 * DAY_MS)


def test_all_is_read_by_turns_and_not_again_on_the_same_day(world: World, weights: Manifest) -> None:
    read = scrub.scrub()
    assert read >= len(b"first") + len(b"second")
    assert scrub.scrub() == 0
    assert not Damage.objects.exists()
    assert queries.scrub().oldest_ms is not None
    assert not queries.scrub().late


@pytest.mark.parametrize("data", [b"sec0nd", b"", None], ids=["flipped", "cut off", "gone"])
def test_what_is_damaged_is_found_told_and_mended_by_the_same_upload(
    cast: Cast, world: World, weights: Manifest, tmp_path: Path, data: bytes | None
) -> None:
    rot(tmp_path, "b.bin", data)
    scrub.scrub()
    damage = Damage.objects.get()
    assert (damage.manifest, damage.path, damage.name, damage.mended_ms) == (
        weights.id,
        "b.bin",
        "weights",
        None,
    )
    assert Event.objects.get(kind="StoreDamaged").cause.startswith("b.bin of weights, 6 B: ")
    assert "discarded" not in damage.why  # the file stays where it lies
    assert list(queries.damaged_files()) == ["vision"]
    a_month_passes()
    scrub.scrub()
    assert Event.objects.filter(kind="StoreDamaged").count() == 1
    assert upload(cast, {"a.bin": b"first", "b.bin": b"second"}).id == weights.id
    mending.recheck()
    assert Damage.objects.get().mended_ms is not None
    assert queries.damaged_files() == {}
    assert Event.objects.filter(kind="StoreMended").count() == 1


def test_a_node_that_holds_it_is_asked_and_the_next_one_if_that_did_not_help(
    world: World, weights: Manifest, tmp_path: Path
) -> None:
    rot(tmp_path, "b.bin", None)
    scrub.scrub()
    mending.ask()
    assert Damage.objects.get().mender == ""  # nobody holds it
    nodes = list(Node.objects.order_by("id"))
    for node in nodes:
        liveness.heard(node.id, Telemetry(10**12, 0, holds=(weights.id,)), now_ms())
    asked = []
    for order in (1, 2, 3):
        mending.ask()
        mending.recheck()
        mender = Damage.objects.get().mender
        (state,) = wanted_states([mender])
        assert state.mends == (
            MendWanted(artifact_queries.references([weights.id])[weights.id], ("b.bin",), order),
        )
        assert manifests([(mender, weights.id)]) != [None]
        asked.append(mender)
    assert len(set(asked)) == min(3, len(nodes))
    write_back(manifest_of(weights), copy_of(tmp_path), state.mends[0])
    mending.recheck()
    assert Damage.objects.get().mended_ms is not None
    assert wanted_states([mender])[0].mends == ()


def test_a_copy_that_is_damaged_itself_is_not_written_back(
    world: World, weights: Manifest, tmp_path: Path
) -> None:
    rot(tmp_path, "b.bin", None)
    home = copy_of(tmp_path)
    (home / "b.bin").write_bytes(b"sec0nd")
    mend = MendWanted(artifact_queries.references([weights.id])[weights.id], ("b.bin",), 1)
    with pytest.raises(TrainmasterError, match=r"b\.bin"):
        write_back(manifest_of(weights), home, mend)
    assert not list(tmp_path.glob("model/*/b.bin"))


def test_damage_of_files_that_were_deleted_is_forgotten(
    world: World, weights: Manifest, tmp_path: Path
) -> None:
    rot(tmp_path, "b.bin", None)
    scrub.scrub()
    Manifest.objects.filter(id=weights.id).update(source_url="")
    mending.recheck()
    assert not Damage.objects.exists()


def copy_of(tmp_path: Path) -> Path:
    """As it lies on a node."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.bin").write_bytes(b"first")
    (home / "b.bin").write_bytes(b"second")
    return home


def manifest_of(row: Manifest) -> Any:
    return artifact_queries.manifest(row.id)


def test_a_checkpoint_that_the_store_has_lost_is_begun_from_no_more_until_it_is_whole(
    cast: Cast, world: World, weights: Manifest, tmp_path: Path
) -> None:
    Checkpoint.objects.filter(id=world.checkpoint).update(manifest=weights)
    rot(tmp_path, "a.bin", b"f1rst")
    scrub.scrub()
    assert "a.bin" in Checkpoint.objects.get(id=world.checkpoint).damaged
    rot(tmp_path, "a.bin", b"first")
    upload(cast, {"a.bin": b"first", "b.bin": b"second"})
    mending.recheck()
    assert Checkpoint.objects.get(id=world.checkpoint).damaged == ""


def test_a_store_that_is_not_mounted_has_lost_nothing(
    world: World, weights: Manifest, tmp_path: Path, settings: Any
) -> None:
    tmp_path.rename(tmp_path.with_name("unmounted"))
    tmp_path.mkdir()
    assert scrub.scrub() == 0
    assert not Damage.objects.exists()


def test_a_reading_that_broke_off_goes_on_where_it_was(cast: Cast, world: World) -> None:
    Manifest.objects.update(checked_ms=now_ms())
    large = upload(cast, {"large.bin": bytes(LEAST_BYTES + 5)})
    assert scrub.scrub() == LEAST_BYTES
    assert Manifest.objects.get(id=large.id).checked_chunks == 1
    assert scrub.scrub() == 5
    assert Manifest.objects.get(id=large.id).checked_ms > 0
    assert scrub.scrub() == 0


def test_files_that_were_deleted_while_they_were_read_are_no_damage(
    world: World, weights: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = scrub.check_chunk

    def check_while_deleted(*about: Any) -> None:
        Manifest.objects.filter(id=weights.id).update(source_url="")
        for path in [*tmp_path.rglob("a.bin"), *tmp_path.rglob("b.bin")]:
            path.unlink()
        check(*about)

    Manifest.objects.exclude(id=weights.id).update(checked_ms=now_ms())
    monkeypatch.setattr(scrub, "check_chunk", check_while_deleted)
    scrub.scrub()
    assert not Damage.objects.exists()


def test_an_operator_may_turn_it_off(world: World, weights: Manifest, settings: Any) -> None:
    settings.SCRUB_DAYS = 0
    assert scrub.scrub() == 0
    assert queries.scrub().days == 0


def test_the_page_and_the_api_tell_a_team_what_it_has_lost_and_no_other(
    cast: Cast,
    world: World,
    weights: Manifest,
    tmp_path: Path,
    browser: Callable[[User], Client],
    api: Callable[..., APIClient],
) -> None:
    assert "has not been read yet" in browser(cast.owner).get("/storage/").content.decode()
    rot(tmp_path, "b.bin", b"sec0nd")
    scrub.scrub()
    (told,) = api(cast.member).get("/api/v1/storage/damages").json()["results"]
    assert (told["path"], told["name"], told["mended_ms"]) == ("b.bin", "weights", None)
    assert api(cast.outsider, "nlp").get("/api/v1/storage/damages").json()["results"] == []
    assert "b.bin" in browser(cast.owner).get("/storage/").content.decode()
    assert "b.bin" not in browser(cast.outsider).get("/storage/").content.decode()
