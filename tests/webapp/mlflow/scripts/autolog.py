"""Trains with autologging of scikit-learn and of Lightning, registers the model and loads it back by its alias."""

import json

import mlflow
import numpy as np
import pytorch_lightning as lightning
import torch
from mlflow.tracking import MlflowClient
from sklearn.linear_model import Ridge
from torch.utils.data import DataLoader, TensorDataset

client = MlflowClient()
features = np.random.default_rng(0).normal(size=(40, 2))
target = features @ np.array([1.0, -2.0])


class Line(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]).squeeze(1), batch[1])
        self.log("train/loss", loss, on_epoch=True, on_step=False)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def scikit_learn() -> dict[str, object]:
    mlflow.set_experiment("autolog")
    mlflow.sklearn.autolog()
    with mlflow.start_run(run_name="ridge") as run:
        model = Ridge(alpha=0.5).fit(features, target)
        logged = mlflow.sklearn.log_model(model, name="ridge", registered_model_name="Ridge Model")
    client.set_registered_model_alias("Ridge Model", "champion", "1")
    loaded = mlflow.pyfunc.load_model("models:/Ridge Model@champion")
    kept = client.get_run(run.info.run_id)
    return {
        "run": run.info.run_id,
        "status": kept.info.status,
        "alpha": kept.data.params["alpha"],
        "metrics": sorted(kept.data.metrics),
        "inputs": len(kept.inputs.dataset_inputs),
        "outputs": len(kept.outputs.model_outputs),
        "model": logged.model_id,
        "same": bool(np.allclose(loaded.predict(features), model.predict(features))),
    }


def pytorch_lightning() -> dict[str, object]:
    mlflow.pytorch.autolog(log_models=False)
    data = TensorDataset(
        torch.tensor(features, dtype=torch.float32), torch.tensor(target, dtype=torch.float32)
    )
    with mlflow.start_run(run_name="line") as run:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
        trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", enable_model_summary=False, **quiet)
        trainer.fit(Line(), DataLoader(data, batch_size=10))
    kept = client.get_run(run.info.run_id)
    history = client.get_metric_history(run.info.run_id, "train/loss")
    return {
        "run": run.info.run_id,
        "status": kept.info.status,
        "epochs": kept.data.params.get("epochs"),
        "points": len(history),
    }


print(json.dumps({"sklearn": scikit_learn(), "lightning": pytorch_lightning()}))
