"""Generates the package trainmaster_wire from its .proto files: `make proto`. The check compares with a fresh run.

python tools/proto.py [FOLDER]        FOLDER: where to write, proto/ unless told
"""

import shutil
import sys
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path(__file__).resolve().parent.parent / "proto"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def generate(target: Path) -> None:
    """Messages, services and their types; a file whose .proto is gone disappears."""
    for pattern in GENERATED:
        for stale in (target / "trainmaster_wire").rglob(pattern):
            stale.unlink()
    protos = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.proto"))
    plugins = [f"--plugin={name}={plugin(name)}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    outputs = [f"--{kind}_out={target}" for kind in ("python", "grpc_python")]
    outputs += [f"--{kind}_out=quiet:{target}" for kind in ("mypy", "mypy_grpc")]
    if protoc.main(["protoc", f"--proto_path={SOURCE}", *plugins, *outputs, *protos]):
        sys.exit("protoc refused the .proto files; its complaint stands above.")


def plugin(name: str) -> str:
    """Beside the Python that runs us, which need not be on the PATH."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        sys.exit(f"{name} is missing. Install trainmaster[dev].")
    return found


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)
