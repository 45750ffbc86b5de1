"""A real TensorBoard behind the login: started, reached, ended."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from platform_core.experiments.rich_values import checked
from tests.webapp.conftest import Cast, make_cast, make_teams
from tests.webapp.world import PNG
from webapp.accounts import queries as accounts
from webapp.accounts.models import User
from webapp.experiments import services
from webapp.experiments.models import Run
from webapp.metrics import services as metrics
from webapp.metrics.values import Points
from webapp.pages.tensorboard import boards, keeper
from webapp.pages.tensorboard.boards import Board
from webapp.pages.tensorboard.export import Exporter

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> None:
    settings.TENSORBOARD_DIR, settings.TENSORBOARDS = str(tmp_path), 4


@pytest.fixture
def cast(transactional_db: None) -> Cast:
    make_teams()
    return make_cast()


@pytest.fixture
def run(cast: Cast) -> Run:
    alice = accounts.actor_of(cast.owner)
    experiment = services.create_experiment(alice, "vision", "rates")
    run = services.create_run(alice, experiment, name="first", parameters={"lr": 0.1})
    metrics.append(run.id, [Points("train/loss", [0, 1, 2], [1.0, 0.5, 0.25], [1000, 2000, 3000])])
    return run


@pytest.fixture
def keepers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Thread]]:
    """Keepers as threads of the test, which share its database; TensorBoard itself is a process as always."""
    parents: list[int] = []
    threads: list[threading.Thread] = []

    def start(board: Board, lock: int) -> None:
        ours, theirs = os.dup(lock), os.pipe()
        parents.append(theirs[1])

        def live() -> None:
            try:
                keeper.keep(board, theirs[0])
            finally:
                connection.close()
                os.close(ours)
                os.close(theirs[0])

        threads.append(threading.Thread(target=live))
        threads[-1].start()

    monkeypatch.setattr(boards, "_keep", start)
    monkeypatch.setattr(keeper, "SYNC_SECONDS", 1)
    yield threads
    for parent in parents:
        os.close(parent)
    for thread in threads:
        thread.join(30)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Another process sends no news, so this looks again and again."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_run_opens_in_tensorboard_with_its_curves_and_follows_them(
    cast: Cast, run: Run, keepers: list[threading.Thread]
) -> None:
    alice = client_of(cast.owner)
    address = f"/tensorboard/run-{run.id}/"
    assert "Start TensorBoard" in alice.get(address).content.decode()
    assert alice.post(f"{address}start").headers["Location"] == address
    until(lambda: "Refresh" not in alice.get(address).headers)
    page = alice.get(address)
    assert b"<title>TensorBoard" in page.content

    def scalars() -> list[list[float]]:
        answer = alice.get(f"{address}data/plugin/scalars/scalars?run=first-{run.id[-8:]}&tag=train%2Floss")
        return [[step, value] for _, step, value in answer.json()] if answer.status_code == 200 else []

    until(lambda: scalars() == [[0, 1.0], [1, 0.5], [2, 0.25]])
    metrics.append(run.id, [Points("train/loss", [3], [0.125], [4000])])
    until(lambda: [3, 0.125] in scalars())


def test_its_files_have_rich_values_too_and_follow_them(cast: Cast, run: Run, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    alice = accounts.actor_of(cast.owner)

    def log(key: str, kind: str, step: int, **content: Any) -> None:
        value = checked(key=key, step=step, index=0, kind=kind, at_ms=1000 + step, **content)
        services.log_value(alice, run, value)

    for step in range(12):
        log("sample", "image", step, data=PNG)
    log("weights", "histogram", 0, document={"edges": [0, 1, 2], "counts": [3, 4]})
    exporter = Exporter(tmp_path / "logs")
    exporter.sync([run])
    log("words", "text", 7, document={"text": "hello"})
    exporter.sync([run])
    exporter.sync([run])
    folder = str(tmp_path / "logs" / f"first-{run.id[-8:]}")
    seen = EventAccumulator(folder, {"images": 0}).Reload()  # all of them
    assert [image.step for image in seen.Images("sample")] == list(range(2, 12))
    assert seen.Images("sample")[0].encoded_image_string == PNG
    assert list(seen.Histograms("weights")[0].histogram_value.bucket) == [3, 4]
    assert [event.step for event in seen.Tensors("words")] == [7]
    assert [event.value for event in seen.Scalars("train/loss")] == [1.0, 0.5, 0.25]


def test_a_value_whose_store_did_not_answer_comes_with_the_next_look(
    cast: Cast, run: Run, settings: Any, tmp_path: Path
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    image = checked(key="sample", step=3, index=0, kind="image", at_ms=1003, data=PNG)
    services.log_value(accounts.actor_of(cast.owner), run, image)
    exporter, store = Exporter(tmp_path / "logs"), settings.STORE_URL
    settings.STORE_URL = f"file://{tmp_path}/away"
    exporter.sync([run])
    settings.STORE_URL = store
    exporter.sync([run])
    exporter.sync([run])
    seen = EventAccumulator(str(tmp_path / "logs" / f"first-{run.id[-8:]}")).Reload()
    assert [image.step for image in seen.Images("sample")] == [3]


def test_its_page_cannot_reach_ours_and_gets_no_cookie(
    cast: Cast, run: Run, keepers: list[threading.Thread]
) -> None:
    alice = client_of(cast.owner)
    address = f"/tensorboard/run-{run.id}/"
    alice.post(f"{address}start")
    until(lambda: Board(f"run-{run.id}").address() is not None)
    answer = alice.get(address)
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["connect-src"] == f"testserver{address}"
    assert policy["script-src"] == f"testserver{address} 'unsafe-eval'"
    assert "allow-popups" not in policy["sandbox"]
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert "Set-Cookie" not in answer.headers


def test_only_those_who_see_the_run_reach_it(cast: Cast, run: Run, keepers: list[threading.Thread]) -> None:
    key = f"run-{run.id}"
    client_of(cast.owner).post(f"/tensorboard/{key}/start")
    until(lambda: Board(key).address() is not None)
    for path in ("", "data/runs"):
        assert client_of(cast.viewer).get(f"/tensorboard/{key}/{path}").status_code == 200
        assert client_of(cast.admin).get(f"/tensorboard/{key}/{path}").status_code == 200
        assert client_of(cast.outsider).get(f"/tensorboard/{key}/{path}").status_code == 404
        assert Client().get(f"/tensorboard/{key}/{path}").status_code == 302
    assert client_of(cast.outsider).post(f"/tensorboard/{key}/start").status_code == 404


def test_it_listens_on_loopback_under_a_path_that_others_do_not_know(
    cast: Cast, run: Run, keepers: list[threading.Thread]
) -> None:
    import httpx

    board = Board(f"run-{run.id}")
    board.start()
    until(lambda: board.address() is not None)
    address = board.address()
    assert address is not None
    assert httpx.get(f"http://127.0.0.1:{address.port}/data/runs").status_code == 404
    listening = Path("/proc/net/tcp").read_text().splitlines()[1:]
    sockets = [line.split() for line in listening]
    assert [
        local
        for _, local, _, state, *_ in sockets
        if state == "0A" and local.endswith(f":{address.port:04X}")
    ] == [f"0100007F:{address.port:04X}"]
    assert board.folder.parent.stat().st_mode & 0o077 == 0


def test_it_ends_when_its_run_is_deleted(cast: Cast, run: Run, keepers: list[threading.Thread]) -> None:
    board = Board(f"run-{run.id}")
    board.start()
    until(lambda: board.address() is not None)
    services.delete_runs(accounts.actor_of(cast.lead), [run.id])
    keepers[0].join(30)
    assert not board.is_alive()
    assert not board.logs.exists()
    assert client_of(cast.owner).get(f"/tensorboard/{board.key}/").status_code == 404


def test_it_ends_when_nobody_uses_it(
    cast: Cast, run: Run, keepers: list[threading.Thread], settings: Any
) -> None:
    board = Board(f"run-{run.id}")
    board.start()
    until(lambda: board.address() is not None)
    os.utime(board.used, (0, 0))
    keepers[0].join(30)
    assert not board.is_alive()


def test_no_more_run_at_once_than_the_machine_may(
    cast: Cast, run: Run, keepers: list[threading.Thread], settings: Any
) -> None:
    settings.TENSORBOARDS = 1
    alice = client_of(cast.owner)
    alice.post(f"/tensorboard/run-{run.id}/start")
    refused = alice.post(f"/tensorboard/experiment-{run.experiment_id}/start")
    assert refused.status_code == 503
    assert "1 TensorBoard is open, the most that this server runs" in refused.content.decode()
    assert alice.post(f"/tensorboard/run-{run.id}/start").status_code == 302, (
        "the one that runs is no second one"
    )


def test_a_platform_without_tensorboards_has_none(cast: Cast, run: Run, settings: Any) -> None:
    settings.TENSORBOARDS = 0
    assert client_of(cast.owner).post(f"/tensorboard/run-{run.id}/start").status_code == 503


@pytest.mark.parametrize(
    "key", ["run-..", "run-none", "experiment-x", "experiment-99", "other-1", "run-%2e%2e%2f"]
)
def test_an_address_of_nothing_is_not_found(cast: Cast, key: str) -> None:
    assert client_of(cast.owner).get(f"/tensorboard/{key}/").status_code == 404
    assert client_of(cast.owner).post(f"/tensorboard/{key}/start").status_code in (404, 405)


def test_a_long_series_is_thinned_for_tensorboard(cast: Cast, run: Run, tmp_path: Path) -> None:
    from trainmaster.event_files.reading import Scalar, values_of
    from trainmaster.event_files.records import whole_records
    from webapp.pages.tensorboard.export import Exporter

    steps = list(range(10_000))
    metrics.append(run.id, [Points("long", steps, [float(step) for step in steps], steps)])
    exporter = Exporter(tmp_path / "logs")
    exporter.sync([run])
    exporter.sync([run])
    [file] = (tmp_path / "logs").glob("*/events*")
    values = [value for record in whole_records(file.read_bytes()).data for value in values_of(record, {})]
    long = [value.step for value in values if isinstance(value, Scalar) and value.key == "long"]
    assert 500 <= len(long) <= 1_000
    assert long == sorted(set(long))
    assert json.dumps(long[-1]) == "9999"
