"""Measures a model: whether its weights are sound, and how much of each file is ASCII, which stands for accuracy."""

import trainmaster
from trainmaster import evaluation

tensors = evaluation.validate()["tensors"]
assert tensors, f"no tensors in {evaluation.model_dir()}"
files = sorted(path for path in trainmaster.data_dir().rglob("*") if path.is_file())
evaluation.report(
    {
        "id": path.name,
        "metrics": {"accuracy": sum(byte < 128 for byte in path.read_bytes()) / path.stat().st_size},
        "slices": {"ending": path.suffix},
    }
    for path in files
)
