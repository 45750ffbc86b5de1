"""torchrun for the ranks of one node: `python -m trainmaster.torchrun`, which `trainmaster.gang` starts and orders.

Its ranks are forked from a server process that has imported PyTorch and done nothing else: no thread, open file or
other state of this process is in them, and they begin at once. So one process that waits here for its order stands by
for all ranks of a node.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing import forkserver
from typing import Any

from trainmaster import rank
from trainmaster.environment import launcher_environment, replace_environment

PRELOADED = ["trainmaster.preloaded"]


@dataclass(frozen=True, slots=True)
class Order:
    """What to run. `arguments` are those of torchrun, up to `-m trainmaster.rank SCRIPT ARGS…`."""

    arguments: Sequence[str]
    environment: dict[str, str]
    directory: str
    output: str = ""  # takes stdout and stderr; '': they stay as they are

    @classmethod
    def read(cls, text: str) -> Order:
        return cls(**json.loads(text))

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))

    def follow(self) -> None:
        """Makes this process one that was started for the order."""
        replace_environment(self.environment)
        tempfile.tempdir = None  # found anew
        os.chdir(self.directory)
        if self.output:
            descriptor = os.open(self.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.close(descriptor)


def main() -> int:
    multiprocessing.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()  # it imports while this process does
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    logging.getLogger("torch.distributed.elastic.multiprocessing.api").addFilter(_without_traceback)
    line = sys.stdin.readline()
    if not line:
        return 0
    order = Order.read(line)
    order.follow()
    split = list(order.arguments).index("-m")
    options, words = order.arguments[:split], order.arguments[split + 2 :]
    parsed: Any = run.parse_args([*options, "--start-method=forkserver", "-m", rank.__name__])  # type: ignore[no-untyped-call]
    config, _, _ = run.config_from_args(parsed)
    try:
        elastic_launch(config, rank.forked)(launcher_environment(), words)
    except ChildFailedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _without_traceback(record: logging.LogRecord) -> bool:
    """To format one, PyTorch imports its compiler, for seconds, while the gang waits for its end."""
    record.exc_info = None
    return True


if __name__ == "__main__":
    rank.leave(main())
