"""Stands in for Horovod, which has no wheel and does not build with a PyTorch of C++17: its public names, over gloo."""

import sys

from horovod import hosts, http_server

# The names of the real package; their parents have nothing in them.
for parent in ("runner", "runner.common", "runner.common.util", "runner.http"):
    sys.modules[f"horovod.{parent}"] = sys.modules[__name__]
sys.modules["horovod.runner.common.util.hosts"] = hosts
sys.modules["horovod.runner.http.http_server"] = http_server
