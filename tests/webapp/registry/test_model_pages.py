"""The pages of models call things by their names."""

from collections.abc import Callable

from django.test import Client

from tests.webapp.conftest import Cast
from tests.webapp.world import build
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.registry import services

Browser = Callable[[User], Client]


def test_a_version_from_a_checkpoint_names_its_run_and_step(cast: Cast, browser: Browser) -> None:
    world = build(cast)
    services.register(actor_of(cast.owner), "vision", "bytelm", checkpoint=world.checkpoint)
    page = browser(cast.viewer).get("/models/vision/bytelm/").content.decode()
    assert f'<a href="/jobs/{world.job}/">bytelm, step 50</a>' in page
    assert world.checkpoint not in page
    assert "2 versions" in page


def test_an_uploaded_version_is_called_as_it_was_uploaded(cast: Cast, browser: Browser) -> None:
    build(cast)
    page = browser(cast.viewer).get("/models/vision/bytelm/").content.decode()
    assert '<span class="mono">bytes</span>' in page


def test_twenty_models_take_no_more_queries_than_one(
    cast: Cast, browser: Browser, django_assert_max_num_queries: Callable[..., object]
) -> None:
    world = build(cast)
    for number in range(20):
        services.register(actor_of(cast.owner), "vision", f"model-{number}", manifest=world.model_manifest)
    client = browser(cast.owner)
    with django_assert_max_num_queries(17):  # type: ignore[attr-defined]
        page = client.get("/models/").content.decode()
    assert "model-19" in page
    assert "0 of 0 nodes" in page  # of bytelm, deployed to nobody
