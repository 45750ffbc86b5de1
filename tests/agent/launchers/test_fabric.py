from pathlib import Path

from agent.launchers.container import fabric_arguments


def test_a_container_with_gpus_reaches_the_fabric_of_its_node(tmp_path: Path) -> None:
    assert fabric_arguments(("GPU-a",), tmp_path) == ["--device", str(tmp_path), "--ulimit", "memlock=-1:-1"]


def test_one_without_gpus_or_on_a_node_without_a_fabric_does_not(tmp_path: Path) -> None:
    assert fabric_arguments((), tmp_path) == []
    assert fabric_arguments(("GPU-a",), tmp_path / "missing") == []
