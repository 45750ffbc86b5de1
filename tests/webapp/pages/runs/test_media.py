"""Images, tables, histograms and texts of a run are shown one step at a time, and nothing of them runs."""

import re
from collections.abc import Callable

from django.test import Client

from platform_core.experiments.rich_values import Kind, RichValue
from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.experiments import services

PNG = b"\x89PNG\r\n\x1a\n and what follows"


def test_a_slider_shows_the_values_of_another_step(cast: Cast, browser: Callable[[User], Client]) -> None:
    alice = actor_of(cast.owner)
    run = services.create_run(alice, services.create_experiment(alice, "vision", "rates"))
    for step in (10, 20):
        for key, kind, document in (
            ("note", Kind.TEXT, {"text": f"<b>at {step}</b>"}),
            ("table", Kind.TABLE, {"columns": ["a"], "rows": [[step], [0.5], [None]]}),
            ("weights", Kind.HISTOGRAM, {"edges": [0.0, 1.0, 4.0], "counts": [1.0, 2.0]}),
        ):
            services.log_value(alice, run, RichValue(key, step, 0, kind, 1, document=document))
        image = RichValue("sample", step, 0, Kind.IMAGE, 1, caption="a cat", data=PNG, media_type="image/png")
        services.log_value(alice, run, image)
    client = browser(cast.viewer)
    page = client.get(f"/runs/{run.id}/?tab=media").content.decode()
    assert "&lt;b&gt;at 20&lt;/b&gt;" in page
    assert '<rect x="25.0" width="75.0" y="0" height="100.0"' in page
    assert "<td>0.5</td>" in page
    image_address = re.search(r'<img src="([^"]+)" alt="a cat"', page)
    assert image_address
    assert client.get(image_address[1])["Content-Type"] == "image/png"
    earlier = client.get(
        f"/runs/{run.id}/?block=media&tab=media&key=note&place=0", headers={"HX-Request": "true"}
    ).content.decode()
    assert "&lt;b&gt;at 10&lt;/b&gt;" in earlier
    assert 'aria-valuetext="step 10"' in earlier
    assert client.get(f"/runs/{run.id}/?tab=media&key=none").status_code == 404
