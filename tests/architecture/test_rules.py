"""Each rule finds nothing here, and finds the violation planted in a small tree."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture.rules import borders, environment, naming, parsers, purity, releases, sizes
from tests.architecture.rules.sources import ROOT

Rule = Callable[[Path], Iterator[str]]
RULES = [
    purity.violations,
    sizes.violations,
    sizes.long_lines,
    sizes.packed,
    naming.violations,
    environment.violations,
    borders.crossings,
    borders.hidden,
    borders.cycles,
    releases.violations,
    parsers.violations,
    parsers.nesting,
]


@pytest.mark.parametrize(
    "rule", RULES, ids=lambda rule: f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"
)
def test_the_house_keeps_its_rules(rule: Rule) -> None:
    found = list(rule(ROOT))
    assert not found, "\n" + "\n".join(found)


RECORDED = '{"version": "0.1.0", "migrations": {"webapp/jobs/migrations/0001_initial.py": "00"}}'
LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 60
CORE_FUNCTION = "def f():\n" + "    x = 1\n" * 45

PLANTED: list[tuple[str, Rule, dict[str, str], str]] = [
    ("clock module", purity.violations, {"platform_core/a.py": "import time"}, "imports time"),
    (
        "framework",
        purity.violations,
        {"platform_core/a.py": "from django.db import models"},
        "imports django.db",
    ),
    ("logging", purity.violations, {"platform_core/jobs/a.py": "import logging"}, "imports logging"),
    ("random", purity.violations, {"platform_core/a.py": "def f():\n    import random"}, "imports random"),
    ("now", purity.violations, {"platform_core/a.py": "x = clock.now()"}, "calls .now()"),
    ("file", purity.violations, {"platform_core/a.py": "open('x')"}, "calls open()"),
    ("numpy chance", purity.violations, {"platform_core/a.py": "np.random.rand()"}, "draws chance"),
    (
        "long file",
        sizes.violations,
        {"webapp/a.py": "x = 1\n" * 401},
        "webapp/a.py has 401 lines, 400 are allowed",
    ),
    ("long core file", sizes.violations, {"platform_core/a.py": "x = 1\n" * 301}, "300 are allowed"),
    ("long function", sizes.violations, {"agent/a.py": LONG_FUNCTION}, "agent/a.py::f has 61 lines"),
    ("long core function", sizes.violations, {"platform_core/a.py": CORE_FUNCTION}, "::f has 46 lines, 45"),
    (
        "long method",
        sizes.violations,
        {"agent/a.py": "class C:\n    async " + LONG_FUNCTION.replace("\n", "\n    ")},
        "C.f",
    ),
    ("long script", sizes.violations, {"static/js/a.js": "x\n" * 401}, "static/js/a.js has 401 lines"),
    (
        "long stylesheet",
        sizes.violations,
        {"static/css/a.css": "/* x */\n" * 401},
        "static/css/a.css has 401 lines",
    ),
    (
        "long template",
        sizes.violations,
        {"templates/jobs/a.html": "<p>\n" * 301},
        "templates/jobs/a.html has 301 lines, 300 are allowed",
    ),
    (
        "wide template",
        sizes.long_lines,
        {"templates/a.html": "x" * 161},
        "templates/a.html:1 has 161 characters",
    ),
    ("wide script", sizes.long_lines, {"static/js/a.js": "x" * 121}, "static/js/a.js:1 has 121 characters"),
    ("wide stylesheet", sizes.long_lines, {"static/css/a.css": "x" * 121}, "static/css/a.css:1 has 121"),
    (
        "two declarations a line",
        sizes.packed,
        {"static/css/a.css": "a {\n  color: red; margin: 0;\n}"},
        "static/css/a.css:2 holds more than one declaration",
    ),
    (
        "rule on one line",
        sizes.packed,
        {"static/css/a.css": "a { color: red; }"},
        "static/css/a.css:1 holds more than one declaration",
    ),
    (
        "waiver without leave",
        sizes.violations,
        {"webapp/a.py": "x = 1\n" * 401, sizes.WAIVERS: 'at_most = 0\n[lines]\n"webapp/a.py" = 401'},
        "has 1 waivers, at most 0",
    ),
    (
        "waived and grown",
        sizes.violations,
        {"webapp/a.py": "x = 1\n" * 411, sizes.WAIVERS: 'at_most = 1\n[lines]\n"webapp/a.py" = 410'},
        "has grown from its waived 410 lines to 411",
    ),
    (
        "waived and shrunk",
        sizes.violations,
        {"webapp/a.py": "x = 1\n" * 405, sizes.WAIVERS: 'at_most = 1\n[lines]\n"webapp/a.py" = 410'},
        "lower its waiver",
    ),
    (
        "waived and gone",
        sizes.violations,
        {sizes.WAIVERS: 'at_most = 1\n[lines]\n"webapp/a.py" = 410'},
        "which is no more",
    ),
    ("utils module", naming.violations, {"webapp/jobs/utils.py": ""}, "dumping ground"),
    ("helpers package", naming.violations, {"agent/helpers/x.py": ""}, "dumping ground"),
    ("common in the tests", naming.violations, {"tests/support/common.py": ""}, "dumping ground"),
    (
        "getenv",
        environment.violations,
        {"agent/a.py": "import os\nx = os.getenv('X')"},
        "reads the environment",
    ),
    (
        "environ",
        environment.violations,
        {"webapp/jobs/a.py": "import os\nx = os.environ['X']"},
        "reads the environment",
    ),
    (
        "from os",
        environment.violations,
        {"sdk/trainmaster/a.py": "from os import environ"},
        "reads the environment",
    ),
    (
        "environ copied and then looked into",
        environment.violations,
        {"agent/a.py": "import os\nx = dict(os.environ)['X']"},
        "reads the environment",
    ),
    (
        "models of another app",
        borders.crossings,
        {"webapp/jobs/models.py": "", "webapp/scheduling/a.py": "from webapp.jobs import models"},
        "imports webapp.jobs.models",
    ),
    (
        "a row of another app",
        borders.crossings,
        {"webapp/jobs/models.py": "", "webapp/scheduling/a.py": "from webapp.jobs.models import JobRow"},
        "imports webapp.jobs.models",
    ),
    (
        "hidden import",
        borders.hidden,
        {"webapp/jobs/a.py": "def f():\n    from webapp.accounts import services"},
        "inside f()",
    ),
    (
        "migration of a release changed",
        releases.violations,
        {"webapp/jobs/migrations/0001_initial.py": "changed", releases.RECORD: RECORDED},
        "0001_initial.py is part of release 0.1.0 and was changed",
    ),
    (
        "migration of a release removed",
        releases.violations,
        {releases.RECORD: RECORDED},
        "0001_initial.py is part of release 0.1.0 and is gone",
    ),
    (
        "parser in the web process",
        parsers.violations,
        {"webapp/datasets/a.py": "def f():\n    from pyarrow import parquet"},
        "webapp/datasets/a.py:2 imports pyarrow, which parses what people bring",
    ),
    (
        "parser in the agent",
        parsers.violations,
        {"agent/uplink/a.py": "import tensorboard.compat.proto.event_pb2"},
        "imports tensorboard",
    ),
    (
        "parser from its package",
        parsers.violations,
        {"webapp/a.py": "from google import protobuf"},
        "imports google.protobuf",
    ),
    (
        "what a reader process alone runs",
        parsers.violations,
        {"webapp/datasets/a.py": "from webapp.datasets import arrow_rows"},
        "imports webapp.datasets.arrow_rows, which a reader process alone runs",
    ),
    (
        "JSON nested beyond the stack",
        parsers.nesting,
        {"webapp/a.py": "try:\n    x = json.loads(text)\nexcept ValueError:\n    x = None"},
        "webapp/a.py:1 reads JSON and catches ValueError without RecursionError",
    ),
    (
        "ring",
        borders.cycles,
        {
            "agent/a.py": "from agent import b",
            "agent/b.py": "from agent.c import x",
            "agent/c.py": "import agent.a",
        },
        "agent.a, agent.b, agent.c",
    ),
]


def plant(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(("rule", "files", "sentence"), [p[1:] for p in PLANTED], ids=[p[0] for p in PLANTED])
def test_a_planted_violation_is_found(
    rule: Rule, files: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    plant(tmp_path, files)
    assert sentence in "\n".join(rule(tmp_path))


INNOCENT: list[tuple[str, Rule, dict[str, str]]] = [
    (
        "types only",
        purity.violations,
        {"platform_core/a.py": "if TYPE_CHECKING:\n    from random import Random"},
    ),
    (
        "whole environment handed on",
        environment.violations,
        {"agent/a.py": "import os\nx = os.environ | {'A': 'b'}"},
    ),
    (
        "services and the exceptions",
        borders.crossings,
        {
            "webapp/base/identity.py": "",
            "webapp/events/services.py": "",
            "webapp/jobs/a.py": "from webapp.events import services\nfrom webapp.base.identity import new_id",
        },
    ),
    (
        "a row of another app in annotations",
        borders.crossings,
        {
            "webapp/jobs/models.py": "",
            "webapp/rpc/a.py": "if TYPE_CHECKING:\n    from webapp.jobs.models import Job",
        },
    ),
    (
        "its own models",
        borders.crossings,
        {"webapp/jobs/models.py": "", "webapp/jobs/a.py": "import webapp.jobs.models"},
    ),
    (
        "import in ready",
        borders.hidden,
        {"webapp/jobs/apps.py": "def ready(self):\n    import webapp.jobs.signals"},
    ),
    ("migrations", sizes.violations, {"webapp/jobs/migrations/0001_initial.py": "x = 1\n" * 900}),
]


@pytest.mark.parametrize(("rule", "files"), [p[1:] for p in INNOCENT], ids=[p[0] for p in INNOCENT])
def test_what_is_allowed_passes(rule: Rule, files: dict[str, str], tmp_path: Path) -> None:
    plant(tmp_path, files)
    assert not list(rule(tmp_path))
