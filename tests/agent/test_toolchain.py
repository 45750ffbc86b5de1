"""What the Python of the jobs has is asked of its files, as they lie in an environment."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from pathlib import Path

from agent.probes.toolchain import Toolchain, ask


def environment_with(root: Path, version: str) -> dict[str, str]:
    """A PyTorch as far as its version goes."""
    torch = root / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("raise SystemExit('torch is not to be imported')\n")
    (torch / "version.py").write_text(version)
    nccl = root / "nvidia_nccl_cu12-2.20.5.dist-info"
    nccl.mkdir()
    (nccl / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-nccl-cu12\nVersion: 2.20.5\n")
    return {"PYTHONPATH": str(root)}


def test_the_installed_torch_is_told_as_it_is() -> None:
    toolchain = ask(sys.executable, {})
    assert toolchain.python == platform.python_version()
    assert toolchain.torch.partition("+")[0] == importlib.metadata.version("torch").partition("+")[0]


def test_an_older_torch_with_cuda_is_told_without_importing_it(tmp_path: Path) -> None:
    version = "__version__ = '2.4.1+cu121'\ncuda = '12.1'\n"
    toolchain = ask(sys.executable, environment_with(tmp_path, version))
    assert toolchain.versions == {
        "python": platform.python_version(), "torch": "2.4.1+cu121", "cuda": "12.1", "nccl": "2.20.5"
    }  # fmt: skip


def test_a_python_that_does_not_answer_has_nothing() -> None:
    assert ask("/bin/false", {}) == ask("/no/such/python", {}) == Toolchain()
