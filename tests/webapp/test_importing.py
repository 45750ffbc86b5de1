"""`trainmaster import` of real sources against the REST API as it is served; run again, nothing is doubled."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import CliRunner, Result
from pytest_django.live_server_helper import LiveServer
from torch.utils.tensorboard import SummaryWriter

from platform_core.experiments.rich_values import checked
from tests.webapp.conftest import make_cast, make_teams
from tools import mlflow_venv
from trainmaster.cli import main
from trainmaster.event_files.reading import Scalar, values_of
from trainmaster.event_files.records import whole_records
from webapp.accounts import queries as accounts
from webapp.accounts import tokens
from webapp.accounts.permissions import SYSTEM
from webapp.experiments import rich_values
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.registry.models import Model, ModelVersion

Trainmaster = Callable[..., Result]
WANDB = Path(__file__).resolve().parents[1] / "sdk" / "importers" / "wandb"


@pytest.fixture
def trainmaster(
    live_server: LiveServer, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Trainmaster]:
    """As alice of vision."""
    make_teams()
    cast = make_cast()
    token = tokens.create_token(accounts.actor_of(cast.owner), "vision", "laptop", 1).text
    monkeypatch.setenv("TRAINMASTER_URL", live_server.url)
    monkeypatch.setenv("TRAINMASTER_TOKEN", token)

    def call(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == code, result.output
        return result

    return call  # type: ignore[return-value]


def points(run: Run, key: str) -> list[tuple[int, float]]:
    history, _ = metrics.history(run.id, key)
    return list(zip(history.steps, history.values, strict=True))


def everything() -> str:
    """Of all runs, to be compared after an import of the same source."""
    return json.dumps(
        {
            run.id: {
                "run": (run.name, run.state, run.parameters, run.tags, run.description, run.parent_id),
                "points": {key: points(run, key) for key in metrics.keys([run.id])},
                "files": sorted(run.files.values_list("path", "sha256")),
                "values": sorted(run.rich_values.values_list("key", "step", "index", "kind")),
            }
            for run in Run.objects.all()
        },
        sort_keys=True,
    )


def test_event_files_become_runs_and_grow_with_them(trainmaster: Trainmaster, tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path / "logs" / "first"))
    writer.add_scalar("loss", 1.0, 0)
    writer.add_scalars("accuracy", {"top1": 0.5}, 0)
    writer.add_histogram("weights", np.arange(10), 0)
    writer.add_text("note", "hello", 0)
    writer.add_image("picture", np.zeros((3, 4, 4)), 0)
    writer.add_hparams({"lr": 0.1}, {"hparam/loss": 1.0})
    writer.flush()
    for split in ("train", "val"):
        with SummaryWriter(str(tmp_path / "logs" / "second" / split)) as other:
            other.add_scalar("loss", 2.0, 0)
    command = ("import", "tensorboard", str(tmp_path / "logs"), "--experiment", "old")
    [first, second] = json.loads(trainmaster(*command, "--json").stdout)
    assert (first["name"], first["values"], second["name"], second["points"]) == ("first", 3, "second", 2)
    run = Run.objects.get(id=first["run"])
    assert (run.source, run.experiment.name, run.state, run.parameters) == (
        "tensorboard",
        "old",
        "succeeded",
        {"lr": 0.1},
    )
    assert metrics.keys([run.id]) == ["accuracy_top1/accuracy", "hparam/loss", "loss"]
    assert metrics.keys([second["run"]]) == ["train/loss", "val/loss"]
    before = everything()
    trainmaster(*command)
    assert everything() == before

    writer.add_scalar("loss", 0.5, 1)
    writer.close()
    trainmaster(*command)
    assert points(run, "loss") == [(0, 1.0), (1, 0.5)]
    assert Run.objects.count() == 2


def test_an_offline_run_of_wandb_is_read_from_its_datastore(trainmaster: Trainmaster, tmp_path: Path) -> None:
    [recorded] = WANDB.iterdir()
    shutil.copytree(recorded, tmp_path / "run")
    (tmp_path / "run" / "files" / "saved.txt").symlink_to(recorded / "files" / "requirements.txt")
    command = ("import", "wandb", str(tmp_path / "run"))
    assert "left out: saved.txt" in trainmaster(*command).stderr
    run = Run.objects.get()
    assert (run.name, run.group, run.description, run.state) == ("first", "seeds", "A **note**", "succeeded")
    assert run.parameters == {"lr": 0.1, "model.layers": 4, "model.name": "tiny"}
    assert run.tags == {"base": "", "x": ""}
    assert run.experiment.name == "bytes"
    assert points(run, "val/acc") == [(step, step / 5) for step in range(5)]
    assert points(run, "best") == [(7, 0.2)]
    assert sorted(run.rich_values.values_list("key", "kind")) == [
        ("hist", "histogram"),
        ("pics", "image"),
        ("pics", "image"),
        ("tab", "table"),
        ("text", "text"),
    ]
    pictures = run.rich_values.filter(kind="image").order_by("index")
    assert list(pictures.values_list("step", "index", "caption")) == [(7, 0, "cat"), (7, 1, "dog")]
    files = set(run.files.values_list("path", flat=True))
    assert "requirements.txt" in files
    assert "saved.txt" not in files
    before = everything()
    trainmaster(*command)
    assert everything() == before


def test_exported_histories_of_wandb_become_runs(trainmaster: Trainmaster, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("_step,_timestamp,loss,note\n0,1.5,2.0,\n10,2.5,NaN,\n")
    (tmp_path / "a.config.yaml").write_text("_wandb: {value: {}}\nlr: {desc: null, value: 0.3}\n")
    (tmp_path / "b.jsonl").write_text('{"_step": 3, "_timestamp": 2, "val": {"loss": 0.25}}\n')
    (tmp_path / "b.config.json").write_text('{"optimizer": {"lr": 0.1}}')
    trainmaster("import", "wandb", str(tmp_path), "--experiment", "exported")
    first, second = Run.objects.order_by("name")
    assert first.parameters == {"lr": 0.3}
    steps = points(first, "loss")
    assert steps[0] == (0, 2.0)
    assert (steps[1][0], np.isnan(steps[1][1])) == (10, True)
    assert (points(second, "val/loss"), second.parameters) == ([(3, 0.25)], {"optimizer.lr": 0.1})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty", None, "has neither a run of W&B"),
        ("run-x.wandb", b"not one", "its header is another"),
        ("a.jsonl", b"[]\n", "line 1 of"),
    ],
)
def test_a_source_that_cannot_be_read_gets_a_sentence(
    trainmaster: Trainmaster, tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert sentence in trainmaster("import", "wandb", str(tmp_path), code=1).stderr.replace("\n", "")


def test_a_folder_without_event_files_gets_a_sentence(trainmaster: Trainmaster, tmp_path: Path) -> None:
    assert "has no event files" in trainmaster("import", "tensorboard", str(tmp_path), code=1).stderr
    assert "does not answer" in trainmaster("import", "mlflow", "http://127.0.0.1:9", code=1).stderr


def scalars_of(folder: Path) -> set[tuple[str, int, float, int]]:
    return {
        (value.key, value.step, value.value, value.at_ms)
        for file in folder.rglob("events.out.tfevents.*")
        for record in whole_records(file.read_bytes()).data
        for value in values_of(record, {})
        if isinstance(value, Scalar)
    }


def test_event_files_that_are_imported_and_exported_have_the_same_scalars(
    trainmaster: Trainmaster, tmp_path: Path
) -> None:
    with SummaryWriter(str(tmp_path / "in" / "first")) as writer:
        for step in range(50):
            writer.add_scalar("loss", 1 / (1 + step), step)
            writer.add_scalar("a name/with words", step / 3, step)
    trainmaster("import", "tensorboard", str(tmp_path / "in"), "--experiment", "old")
    export = ("export", "old", "--to", "tensorboard", str(tmp_path / "out"))
    assert "1 runs with 100 points" in trainmaster(*export).stdout
    trainmaster(*export)
    assert scalars_of(tmp_path / "out") == scalars_of(tmp_path / "in")
    assert len(scalars_of(tmp_path / "out")) == 100


def test_runs_are_read_back_out_of_parquet(trainmaster: Trainmaster, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    trainmaster("import", "wandb", str(WANDB))
    run = Run.objects.get()
    trainmaster("export", run.id, "--to", "parquet", str(tmp_path))
    [line] = pq.read_table(tmp_path / "runs.parquet").to_pylist()
    assert (line["id"], line["name"], json.loads(line["parameters"])) == (run.id, "first", run.parameters)
    rows = [row for row in pq.read_table(tmp_path / "points.parquet").to_pylist() if row["key"] == "val/acc"]
    assert [(row["step"], row["value"]) for row in rows] == points(run, "val/acc")
    assert (
        "no run and no experiment nothing"
        in trainmaster("export", "nothing", "--to", "parquet", str(tmp_path), code=1).stderr
    )


def test_rich_values_go_out_and_come_back(trainmaster: Trainmaster, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    with SummaryWriter(str(tmp_path / "in" / "first")) as writer:
        writer.add_scalar("loss", 1.0, 1)
        writer.add_text("note", "good | bad", 3)
        writer.add_image("sample", np.zeros((3, 4, 4), np.uint8), 2)
        writer.add_histogram("weights", np.arange(10.0), 2)
    trainmaster("import", "tensorboard", str(tmp_path / "in"), "--experiment", "rich")
    run = Run.objects.get()
    table = {"columns": ["a", "b"], "rows": [[1, "x|y"], [None, "z"]]}
    rich_values.log_value(
        SYSTEM, run, checked(key="rows", step=5, index=0, kind="table", at_ms=9, document=table)
    )
    trainmaster("export", run.id, "--to", "parquet", str(tmp_path / "parquet"))
    rows = {row["key"]: row for row in pq.read_table(tmp_path / "parquet" / "values.parquet").to_pylist()}
    kinds = {key: (row["kind"], row["step"]) for key, row in rows.items()}
    assert kinds == {
        "note": ("text", 3), "sample": ("image", 2), "weights": ("histogram", 2), "rows": ("table", 5),
    }  # fmt: skip
    assert (tmp_path / "parquet" / rows["sample"]["file"]).read_bytes().startswith(b"\x89PNG")
    assert json.loads(rows["rows"]["document"]) == table
    trainmaster("export", run.id, "--to", "tensorboard", str(tmp_path / "out"))
    trainmaster("import", "tensorboard", str(tmp_path / "out"), "--experiment", "again")
    again = Run.objects.exclude(id=run.id).get()
    back = {value.key: value for value in again.rich_values.all()}
    assert {key: value.kind for key, value in back.items()} == {
        "note": "text", "sample": "image", "weights": "histogram", "rows": "text",
    }  # fmt: skip
    assert "| 1 | x\\|y |" in back["rows"].document["text"]
    first = run.rich_values.get(key="weights").document
    assert sum(back["weights"].document["counts"]) == sum(first["counts"])


FILL = """
import mlflow, sys
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment("bytes")
with mlflow.start_run(run_name="parent", tags={"stage": "dev"}, description="A **note**") as parent:
    mlflow.log_params({"lr": 0.1})
    mlflow.log_metrics({"loss": 1.0}, step=0)
    mlflow.log_metrics({"loss": 0.5}, step=1)
    mlflow.log_metric("loss", float("nan"), step=2)
    mlflow.log_text("hello", "notes/a.txt")
    with mlflow.start_run(run_name="child", nested=True):
        mlflow.log_metric("acc", 0.75)
client = mlflow.MlflowClient()
client.set_experiment_tag(parent.info.experiment_id, "mlflow.note.content", "Why *bytes*")
client.set_experiment_tag(parent.info.experiment_id, "dataset", "enwik8")
client.create_registered_model("reader", tags={"kind": "text"}, description="It reads.")
first = client.create_model_version("reader", f"runs:/{parent.info.run_id}/notes", parent.info.run_id)
second = client.create_model_version(
    "reader", f"runs:/{parent.info.run_id}/notes", parent.info.run_id, tags={"best": "yes"}, description="Better."
)
client.set_registered_model_alias("reader", "champion", second.version)
client.create_model_version("reader", "s3://elsewhere/model", None)
with mlflow.start_run(run_name="with model"):
    class Echo(mlflow.pyfunc.PythonModel):
        def predict(self, model_input: list[str]) -> list[str]:
            return model_input
    mlflow.pyfunc.log_model(name="echo", python_model=Echo(), registered_model_name="echo", pip_requirements=[])
try:
    with mlflow.start_run(run_name="broken"):
        raise ValueError
except ValueError:
    pass
"""


@pytest.fixture
def mlflow_server(tmp_path: Path) -> Iterator[str]:
    """A real one with three runs."""
    python = mlflow_venv.ensure()
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [
        str(python), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{tmp_path / 'mlflow.db'}",
        "--artifacts-destination", str(tmp_path / "artifacts"),
    ]  # fmt: skip
    with open(tmp_path / "server.log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)
    try:
        deadline = time.monotonic() + 180
        while not _is_up(url):
            assert server.poll() is None, (tmp_path / "server.log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "server.log").read_text()
            time.sleep(0.2)
        environment = os.environ | {"MLFLOW_TRACKING_TOKEN": ""}
        subprocess.run(
            [str(python), "-c", FILL, url], check=True, env=environment, capture_output=True, timeout=90
        )
        yield url
    finally:
        os.killpg(server.pid, 15)
        server.wait(20)


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_mlflow_server_is_imported_with_history_tags_nesting_and_artifacts(
    trainmaster: Trainmaster, mlflow_server: str
) -> None:
    trainmaster("import", "mlflow", mlflow_server)
    runs = {run.name: run for run in Run.objects.all()}
    parent, child, broken = runs["parent"], runs["child"], runs["broken"]
    assert (parent.experiment.name, parent.source, parent.description) == ("bytes", "mlflow", "A **note**")
    assert parent.experiment.description == "Why *bytes*"
    assert parent.experiment.tags["dataset"] == "enwik8"
    assert (parent.parameters, parent.tags["stage"]) == ({"lr": "0.1"}, "dev")
    assert child.parent_id == parent.id
    assert [run.state for run in (parent, child, broken)] == ["succeeded", "succeeded", "failed"]
    history = points(parent, "loss")
    assert history[:2] == [(0, 1.0), (1, 0.5)]
    assert (history[2][0], np.isnan(history[2][1])) == (2, True)
    assert list(parent.files.values_list("path", flat=True)) == ["notes/a.txt"]
    reader = Model.objects.get(name="reader")
    assert (reader.description, reader.tags) == ("It reads.", {"kind": "text"})
    versions = list(reader.versions.order_by("version"))
    assert [(version.state, version.run_id) for version in versions] == [("ready", parent.id)] * 2
    assert (versions[1].description, versions[1].tags["best"]) == ("Better.", "yes")
    assert list(versions[1].aliases.values_list("name", flat=True)) == ["champion"]
    [echo] = Model.objects.get(name="echo").versions.all()
    assert echo.manifest is not None
    assert "MLmodel" in {file["path"] for file in echo.manifest.document["files"]}
    before, registered = everything(), ModelVersion.objects.count()
    again = trainmaster("import", "mlflow", mlflow_server)
    assert everything() == before
    assert ModelVersion.objects.count() == registered == 3
    assert "reader version 3 is left out: it belongs to no run" in again.output
