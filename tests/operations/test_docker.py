"""The images cannot be built in a test; that they say the same as `trainmaster up` can be checked, and is."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.rules.documentation import settings_of_the_agent, settings_of_the_platform
from tests.architecture.rules.sources import ROOT, Source
from webapp.operations import programs

DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OF_IMAGES = {"POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "VALKEY_PASSWORD"}


def instructions(name: str, keyword: str) -> list[str]:
    text = (DOCKER / name).read_text().replace("\\\n", " ")
    return re.findall(rf"^{keyword} +(.+)$", text, re.MULTILINE)


def source(name: str) -> Source:
    return Source(ROOT / name, name, (ROOT / name).read_text())


@pytest.mark.parametrize(
    ("service", "command"),
    [
        ("migrate", programs.MIGRATE),
        ("web", programs.WEB),
        ("router", programs.ROUTER),
        ("scheduler", programs.SCHEDULER),
        ("coordinator", programs.COORDINATOR),
        ("worker", programs.WORKER),
        ("beat", programs.BEAT),
        ("gateway", programs.GATEWAY),
    ],
)
def test_compose_starts_the_commands_of_up(service: str, command: tuple[str, ...]) -> None:
    assert tuple(SERVICES[service]["command"][: len(command)]) == command


def test_the_images_start_the_commands_of_up() -> None:
    (web,) = instructions("web.Dockerfile", "CMD")
    (agent,) = instructions("agent.Dockerfile", "CMD")
    assert tuple(json.loads(web)[: len(programs.WEB)]) == programs.WEB
    assert tuple(json.loads(agent)) == programs.AGENT


def test_the_image_collects_its_assets_as_up_does() -> None:
    collect = [line for line in instructions("web.Dockerfile", "RUN") if "collectstatic" in line]
    assert len(collect) == 1
    assert collect[0].endswith(shlex.join(programs.COLLECT))


@pytest.mark.parametrize(
    "command",
    [
        programs.MIGRATE,
        programs.COLLECT,
        programs.WEB,
        programs.SCHEDULER,
        programs.COORDINATOR,
        programs.WORKER,
        programs.BEAT,
        programs.GATEWAY,
        programs.AGENT,
    ],
)
def test_the_installation_page_gives_the_commands_of_up(command: tuple[str, ...]) -> None:
    assert f"`{shlex.join(command)}`" in (ROOT / "docs" / "how-to" / "install.md").read_text()


def test_every_variable_in_compose_is_a_setting() -> None:
    known = settings_of_the_platform(source("webapp/config/settings.py")) | OF_IMAGES
    given = {name for service in SERVICES.values() for name in service.get("environment", {})}
    assert given - known == set()


def test_the_agent_image_sets_only_settings_of_the_agent() -> None:
    text = " ".join(instructions("agent.Dockerfile", "ENV"))
    given = set(re.findall(r"(TRAINMASTER_\w+)=", text))
    assert given - settings_of_the_agent(source("agent/config.py")) == set()


def test_every_placeholder_of_compose_is_in_the_example() -> None:
    wanted = set(re.findall(r"\$\{(\w+)", (DOCKER / "compose.yaml").read_text()))
    offered = set(re.findall(r"^(\w+)=", (DOCKER / "platform.env.example").read_text(), re.MULTILINE))
    assert wanted == offered


@pytest.mark.parametrize("name", ["web.Dockerfile", "agent.Dockerfile"])
def test_what_the_images_copy_exists_and_is_not_ignored(name: str) -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in instructions(name, "COPY"):
        *wanted, _ = line.split()
        if wanted[0].startswith("--from"):
            continue
        for path in wanted:
            assert (ROOT / path).exists(), path
            assert path in kept, f"{path} is hidden by .dockerignore"


@pytest.mark.parametrize("name", ["web.Dockerfile", "agent.Dockerfile"])
def test_the_images_do_not_run_as_root(name: str) -> None:
    assert instructions(name, "USER") == ["trainmaster"]


def test_the_agent_image_takes_no_part_of_the_platform() -> None:
    assert not [line for line in instructions("agent.Dockerfile", "COPY") if "webapp" in line]


def test_every_service_that_is_ours_waits_for_the_migration() -> None:
    for name in ("web", "scheduler", "coordinator", "worker", "beat", "gateway"):
        assert SERVICES[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_compose_mounts_nothing_that_it_does_not_declare() -> None:
    named = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if not volume.startswith(("$", ".", "/"))
    }
    assert named == set(COMPOSE["volumes"])


def test_the_example_holds_no_secret() -> None:
    lines = (DOCKER / "platform.env.example").read_text().splitlines()
    assert [line for line in lines if re.match(r"\w*(PASSWORD|KEY)=.", line)] == []


def test_the_docker_folder_holds_only_what_is_checked_here() -> None:
    assert {path.name for path in Path(DOCKER).iterdir()} - {"platform.env"} == {
        "web.Dockerfile",
        "agent.Dockerfile",
        "compose.yaml",
        "platform.env.example",
        "observability",  # read where the metrics of the platform are tested
    }
