"""The benchmarks of moving models, at a small scale: what they promise to print, and that all of it was verified."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest


def run(module: str, *arguments: str, limit: float = 120) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def namespaces_are_allowed() -> bool:
    name = f"tmtest{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
    if made:
        subprocess.run(["ip", "netns", "del", name], check=True)
    return made


def test_agents_and_sockets_move_the_same_bytes_with_and_without_tls() -> None:
    lines = run("dataplane", "--bytes", str(8 << 20), "--piece", str(1 << 20), "--repeat", "1")
    assert {(line["transport"], line["tls"]) for line in lines} >= {
        ("agent", False), ("agent", True), ("sockets", False), ("sockets", True),
    }  # fmt: skip
    assert all(line["verified"] for line in lines)


@pytest.mark.skipif(not namespaces_are_allowed(), reason="network namespaces need root")
def test_real_agents_behind_shaped_links_all_get_the_model() -> None:
    sizes = ("--bytes", str(4 << 20), "--piece", str(128 << 10), "--rate-mbit", "80")
    (line,) = run("distribution_net", "--workers", "3", *sizes, "--peer", "none")
    assert line["verified"]
    assert line["tls"]
    assert line["egress_copies"] <= 1.02
    named = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert f"tm{os.getpid()}" not in named


@pytest.mark.timeout(300)
@pytest.mark.skipif(not namespaces_are_allowed(), reason="network namespaces need root")
def test_whatever_fails_the_others_get_the_model_and_the_story_is_told() -> None:
    faults = (
        "worker_killed",
        "link_at_a_tenth",
        "disk_flips_bits",
        "disk_full",
        "coordinator_replaced",
        "store_stalls",
    )
    sizes = ("--bytes", str(8 << 20), "--piece", str(64 << 10), "--rate-mbit", "20")
    healthy, *seen = run(
        "distribution_faults", "--workers", "5", *sizes, "--only", ",".join(faults), limit=280
    )
    told = {line["fault"]: line for line in seen}
    assert set(told) == set(faults)
    assert all(line["all_verified"] for line in (healthy, *seen))
    assert all(line["expected_s"] <= line["allowed_s"] for line in seen)
    assert told["worker_killed"]["fetched_again"] < 0.9, "it fetches only what it lacks"
    assert told["disk_flips_bits"]["found_by"]
    assert "is full" in told["disk_full"]["its_error"]
    assert told["coordinator_replaced"]["adopted_s"] > 0


def test_ranges_of_a_store_are_measured_and_verified() -> None:
    lines = run("store_ranges", "--bytes", str(40 << 20), "--repeat", "1")
    assert [line["transport"] for line in lines][:1] == ["boto3"]
    assert all(line["verified"] and line["gb_per_s"] > 0 < line["cpu_s_per_gb"] for line in lines)
