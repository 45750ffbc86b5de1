"""What the programs of a node import at their start: an agent that is slow to come back costs its node its jobs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "torch", "numpy", "pandas", "pyarrow", "scipy", "boto3", "botocore", "s3fs", "tensorboard", "tensorflow", "jax",
    "onnx", "mlflow", "transformers", "safetensors", "matplotlib", "PIL", "django", "celery", "redis", "sklearn",
)  # fmt: skip


@pytest.mark.parametrize(
    "program", ["agent.main", "agent.launchers.shim", "agent.launchers.waiting", "agent.exposition"]
)
def test_a_program_of_the_node_imports_nothing_heavy_at_its_start(program: str) -> None:
    script = f"import sys, {program}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert sorted(set(done.stdout.split()).intersection(HEAVY)) == []


def test_the_shim_of_an_attempt_does_not_load_the_agent() -> None:
    script = (
        "import sys, agent.launchers.shim; print(*(name for name in sys.modules if name.startswith('agent')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    known = {
        "agent",
        "agent.launchers",
        "agent.launchers.shim",
        "agent.launchers.lease",
        "agent.launchers.exits",
    }
    assert "grpc" not in done.stdout
    assert set(done.stdout.split()) - known <= {
        "agent.files", "agent.job_files", "agent.work_folder", "agent.launchers.contract", "agent.launchers.accounts",
    }  # fmt: skip
