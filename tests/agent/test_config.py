"""Settings come from flags, then the environment, then defaults; a bad one stops the start with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import ConfigError, inherited_environment, load

NEEDED = {"TRAINMASTER_AGENT_SERVER": "control:7443", "TRAINMASTER_AGENT_DATA": "/var/lib/trainmaster"}


def test_flags_override_the_environment() -> None:
    config = load({"server": "other:1", "rack": None, "slots": 3}, {**NEEDED, "TRAINMASTER_AGENT_RACK": "r7"})
    assert (config.server, config.rack, config.slots) == ("other:1", "r7", 3)
    assert config.data == Path("/var/lib/trainmaster")


def test_labels_come_from_repeated_flags_or_one_variable() -> None:
    assert load({"label": ("a=1", "b=2")}, NEEDED).labels == (("a", "1"), ("b", "2"))
    assert load({"label": ()}, {**NEEDED, "TRAINMASTER_AGENT_LABEL": "a=1, b=2"}).labels == (
        ("a", "1"),
        ("b", "2"),
    )


def test_the_token_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("tok\n")
    assert load({}, {**NEEDED, "TRAINMASTER_AGENT_TOKEN_FILE": str(file)}).token == "tok"


def test_the_token_is_in_no_repr() -> None:
    assert "hush" not in repr(load({"token": "hush"}, NEEDED))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"SERVER": ""}, "needs the gateway's address"),
        ({"SERVER": "control"}, "must be HOST:PORT"),
        ({"DATA": ""}, "folder of its own"),
        ({"SLOTS": "many"}, 'slots is "many"'),
        ({"SLOTS": "-1"}, "slots is -1; it must be 0 to 4096"),
        ({"RENDEZVOUS_PORTS": "9-3"}, "must be LOW-HIGH"),
        ({"LABEL": "rack"}, 'label "rack" must be KEY=VALUE'),
        ({"INSECURE": "perhaps"}, "must be 1 or 0"),
        ({"ISOLATION": "yes"}, 'isolation is "yes"; it must be none, user or containers'),
        ({"CERTIFICATE": "node.pem"}, "needs all three"),
        ({"CACHE_HIGH": "101"}, "cache_high is 101; it must be 1 to 100"),
        ({"CACHE_HIGH": "70", "CACHE_LOW": "75"}, "must not be above cache_high, which is 70"),
    ],
)
def test_a_bad_setting_is_refused_with_the_remedy(change: dict[str, str], sentence: str) -> None:
    environment = NEEDED | {f"TRAINMASTER_AGENT_{name}": value for name, value in change.items()}
    with pytest.raises(ConfigError, match=sentence):
        load({}, environment)


def test_jobs_inherit_what_is_listed_and_what_the_operator_names() -> None:
    environment = {
        "PATH": "/bin",
        "NCCL_DEBUG": "INFO",
        "TRAINMASTER_AGENT_TOKEN": "t",
        "DATABASE_URL": "postgres://",
        "AWS_SECRET_ACCESS_KEY": "k",
        "HF_TOKEN": "hf",
        "HTTPS_PROXY": "http://user:password@proxy",
        "HF_HOME": "/cache",
    }
    assert inherited_environment((), environment) == {"PATH": "/bin", "NCCL_DEBUG": "INFO"}
    named = load({}, {**NEEDED, "TRAINMASTER_AGENT_JOB_ENVIRONMENT": "HF_HOME, OTHER"}).job_environment
    assert set(inherited_environment(named, environment)) == {"PATH", "NCCL_DEBUG", "HF_HOME"}
