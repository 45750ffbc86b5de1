"""The pages of models call things by their names."""

from collections.abc import Callable

from django.test import Client

from tests.webapp.conftest import Cast
from tests.webapp.world import build
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.registry import gates, queries, services

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


def test_a_version_has_a_page_with_its_card_that_people_complete(cast: Cast, browser: Browser) -> None:
    build(cast)
    form = {
        "description": "small", "licence": "MIT", "aliases": "challenger, best", "tags": "data = may\nowner = alice",
        "card": "Not for **medical** use. <script>alert(1)</script>",
    }  # fmt: skip
    client, one = browser(cast.member), "/models/vision/bytelm/1/"
    page = client.post(f"{one}describe/", form, follow=True).content.decode()
    for words in (
        "The card of version 1 is saved.",
        "<strong>medical</strong>",
        "MIT",
        "best, challenger",
        "owner = alice",
    ):
        assert words in page
    assert "owner = alice" in page
    assert "<script>alert" not in page
    client.post(f"{one}describe/", form | {"aliases": "best", "tags": ""})
    page = browser(cast.viewer).get(one).content.decode()
    assert "challenger" not in page
    assert "owner = alice" not in page
    assert "Complete the card" not in page


def test_a_refused_alias_leaves_the_card_and_the_form_as_they_were(cast: Cast, browser: Browser) -> None:
    world = build(cast)
    model = queries.model("vision", "bytelm")
    assert model is not None
    gates.set_policy(actor_of(cast.lead), model, {"approvals": 1, "self_validation": True})
    form = {"description": "typed", "licence": "MIT", "aliases": "champion", "tags": "", "card": ""}
    answer = browser(cast.member).post("/models/vision/bytelm/1/describe/", form)
    assert (answer.status_code, "self-validation has not passed" in answer.content.decode()) == (422, True)
    assert 'value="champion"' in answer.content.decode()
    version = queries.version(world.model_version)
    assert version is not None
    assert version.licence == ""
