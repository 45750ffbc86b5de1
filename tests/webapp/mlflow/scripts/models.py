"""Sends a large file in parts, registers it as a model, and reads back a version that the platform registered."""

import json
import sys
import tempfile
from pathlib import Path

import mlflow
from mlflow.tracking import MlflowClient

client = MlflowClient()
folder = Path(tempfile.mkdtemp())
large = folder / "weights.bin"
large.write_bytes(bytes(range(256)) * (12 * 2**20 // 256 + 1))

experiment = client.create_experiment("parts", artifact_location="mlflow-artifacts:/cellar/wine")
run = client.create_run(experiment)
client.log_artifact(run.info.run_id, str(large), "model")
client.log_text(run.info.run_id, "small", "model/notes.txt")
client.create_registered_model("large")
version = client.create_model_version(
    "large", f"{run.info.artifact_uri}/model", run_id=run.info.run_id, tags={"format": "raw"}
)
(folder / "again").mkdir()
again = Path(client.download_artifacts(run.info.run_id, "model", str(folder / "again")))

ours = mlflow.pyfunc.load_model(f"models:/{sys.argv[1]}/1")
ours_files = mlflow.artifacts.download_artifacts(f"models:/{sys.argv[1]}@champion")
print(
    json.dumps(
        {
            "uri": run.info.artifact_uri,
            "version": version.version,
            "status": version.status,
            "same": (again / "weights.bin").read_bytes() == large.read_bytes(),
            "files": sorted(path.name for path in again.iterdir()),
            "doubled": [float(value) for value in ours.predict([1.0, 2.5])],
            "ours": sorted(path.name for path in Path(ours_files).iterdir()),
        }
    )
)
