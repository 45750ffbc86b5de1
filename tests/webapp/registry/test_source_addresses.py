"""The platform reads a source with its own credentials: only beneath a listed prefix, and never its own store."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from django.conf import LazySettings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from platform_core.errors import TrainmasterError
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.artifacts.models import Manifest
from webapp.config import settings as shipped
from webapp.registry import services
from webapp.registry.models import ModelVersion


@pytest.fixture
def disk(settings: LazySettings, tmp_path: Path) -> Path:
    """A listed folder with a model and links out of it, beside the store and a file of secrets."""
    for name in ("models/llama", "models-private", "store/model/up-1", "sec f"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("models/llama/w.bin", "models-private/w.bin", "store/model/up-1/w.bin", "sec f/secrets.env"):
        (tmp_path / name).write_text("content")
    (tmp_path / "models/out").symlink_to(tmp_path / "sec f")
    (tmp_path / "models/in-store").symlink_to(tmp_path / "store/model")
    settings.STORE_URL = (tmp_path / "store").as_uri()
    settings.SOURCE_PREFIXES = [f"{(tmp_path / 'models').as_uri()}/"]
    return tmp_path


OUT_OF_THE_PREFIX = [
    "file://{disk}/models/%2e%2e/sec%20f/secrets.env",
    "file://{disk}/models/%2E./sec%20f/secrets.env",
    "file://{disk}/models/../sec%20f/secrets.env",
    "file://{disk}/models/llama/../../store/model/up-1",
    "file://{disk}/models/..",
    "file://{disk}/models/out/secrets.env",
    "file://{disk}/models/out",
    "file://{disk}/models/in-store/up-1",
    "file://{disk}/models-private/w.bin",
    "file://{disk}/store/model/up-1/w.bin",
    "file://{disk}//st%6fre/model/up-1/w.bin",
    "file://localhost{disk}/store/model/up-1",
    "file://{disk}/models%2f..%2fstore/model",
    "file://{disk}/models/\t../store",
    "file://{disk}/models/?/../../store",
    "file://{disk}",
    "file:///etc/passwd",
    "file://models/llama",
    "FILE://{disk}/store/model",
    "s3://models/llama",
    "http://169.254.169.254/",
    "file://[/models",
]


@pytest.mark.parametrize("url", OUT_OF_THE_PREFIX)
def test_no_spelling_leads_out_of_the_listed_folder(url: str, disk: Path, vision: Team, owner: User) -> None:
    with pytest.raises(TrainmasterError) as refused:
        services.register(actor_of(owner), "vision", "stolen", source_url=url.format(disk=disk))
    assert refused.value.code == "request_invalid"
    assert not ModelVersion.objects.exists()


@pytest.mark.parametrize(
    "url",
    [
        "s3://tmstore/",
        "s3://tmstore",
        "s3://tmstore/prefix/model",
        "s3://tmstore//prefix/model",
        "s3://tmstore/prefix//model",
        "s3://tmstore/pre%66ix/model",
        "s3://tmstore/other/../prefix/model",
        "s3://tmstore/prefix%2Fmodel",
        "s3://arn:aws:s3:eu-west-1:1:accesspoint:tmstore/prefix",
        "s3://other/x",
    ],
)
def test_no_spelling_leads_into_the_store_in_s3(url: str, settings: LazySettings) -> None:
    settings.STORE_URL, settings.SOURCE_PREFIXES = "s3://tmstore/prefix", ["s3://tmstore/", "s3://hub/open"]
    with pytest.raises(TrainmasterError):
        services.check_source(url)


def test_a_listed_prefix_ends_at_a_whole_name(settings: LazySettings) -> None:
    settings.STORE_URL, settings.SOURCE_PREFIXES = (
        "s3://tmstore/prefix",
        ["s3://hub/open", "https://hub.example"],
    )
    assert services.check_source("s3://hub/%6fpen/llama/") == "s3://hub/open/llama"
    assert services.check_source("https://HUB.example/llama.bin") == "https://hub.example/llama.bin"
    for url in (
        "s3://hub/openly/llama",
        "s3://hub/ope",
        "https://hub.example.evil.org/x",
        "https://hub.example@evil.org/",
    ):
        with pytest.raises(TrainmasterError, match="TRAINMASTER_SOURCE_PREFIXES"):
            services.check_source(url)


def test_nothing_is_read_in_place_until_an_operator_lists_where(disk: Path) -> None:
    assert shipped.SOURCE_PREFIXES == []


def test_a_link_inside_a_listed_folder_does_not_bring_in_what_it_points_to(
    disk: Path, vision: Team, owner: User
) -> None:
    (disk / "models/llama/config.json").symlink_to(disk / "sec f/secrets.env")
    version = services.register(
        actor_of(owner), "vision", "llama", source_url=(disk / "models/llama").as_uri()
    )
    services.read_source(version.id)
    version.refresh_from_db()
    assert (version.state, Manifest.objects.count()) == ("failed", 0)
    assert "config.json" in version.error


def test_a_folder_that_became_a_link_after_it_was_registered_is_not_read(
    disk: Path, vision: Team, owner: User
) -> None:
    version = services.register(
        actor_of(owner), "vision", "llama", source_url=(disk / "models/llama").as_uri()
    )
    (disk / "models/llama").rename(disk / "models/moved")
    (disk / "models/llama").symlink_to(disk / "sec f")
    services.read_source(version.id)
    version.refresh_from_db()
    assert (version.state, Manifest.objects.count()) == ("failed", 0)


def test_a_file_whose_name_has_to_be_encoded_is_read(disk: Path, vision: Team, owner: User) -> None:
    (disk / "models/a b#1.bin").write_text("weights")
    version = services.register(
        actor_of(owner), "vision", "llama", source_url=(disk / "models/a b#1.bin").as_uri()
    )
    services.read_source(version.id)
    version.refresh_from_db()
    assert version.state == "ready", version.error


PARTS = st.sampled_from(
    ["..", ".", "", "%2e%2e", "%2E.", "%252e%252e", "models", "m%6fdels", "store", "st%6fre", "model", "up-1", "w.bin",
     "llama", "out", "in-store", "sec%20f", "secrets.env", "models-private", "%2f", "..%2fstore", "\\..", "?", "#"]
)  # fmt: skip


@hypothesis(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(PARTS, max_size=7), st.sampled_from(["file://", "file://localhost", "FILE://"]), st.booleans()
)
def test_no_accepted_address_lies_in_the_store_or_out_of_the_prefix(
    disk: Path, parts: list[str], start: str, beneath: bool
) -> None:
    url = f"{start}{disk}{'/models' if beneath else ''}/" + "/".join(parts)
    try:
        accepted = services.check_source(url)
    except TrainmasterError:
        return
    for spelling in (url, accepted):
        place = os.path.realpath(unquote(urlsplit(spelling).path))
        assert place == f"{disk}/models" or place.startswith(f"{disk}/models/")
        assert not place.startswith(f"{disk}/store")
