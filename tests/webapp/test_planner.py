"""The parallelism planner in a browser and over REST."""

import json
import re
from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.jobs.spec import parse
from webapp.accounts.models import User
from webapp.experiments import scaling

Browser = Callable[[User], Client]
SMALL = "model.layers=12&model.hidden=768&model.heads=12"


@pytest.fixture
def client(browser: Browser, outsider: User) -> Client:
    """Somebody without a team: the planner shows nothing of anybody."""
    return browser(outsider)


@pytest.fixture(autouse=True)
def the_whole_curve_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(scaling, "SECONDS", 600.0)


def test_the_page_answers_for_a_known_model_at_once(client: Client) -> None:
    page = client.get("/planner/").content.decode()
    assert "on 512 GPUs of h100-80gb with" in page
    assert "Step time by part" in page


def test_the_address_is_the_question(client: Client) -> None:
    page = client.get(f"/planner/?{SMALL}&gpus=8&gpu_type=a100-80gb").content
    assert b"on 8 GPUs of a100-80gb with " in page


@pytest.mark.parametrize(
    "query", ["gpus=many", "gpus=12", "model.heads=0", "sequence=-1", "gpu_type=tpu", "gpus=1e400"]
)
def test_a_bad_question_is_answered_with_the_form_and_a_sentence(query: str, client: Client) -> None:
    answer = client.get(f"/planner/?{SMALL}&{query}")
    assert (answer.status_code, 'role="alert"' in answer.content.decode()) == (422, True)


def test_scaling_comes_as_a_fragment_of_its_own(client: Client) -> None:
    address = f"/planner/?{SMALL}&global_batch=4096&gpus=8&block=scaling"
    assert client.get(address, headers={"HX-Request": "true"}).content.decode().count("<tr>") == 11


def test_a_slow_server_plans_the_curve_in_several_requests(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "SECONDS", 0.0)
    question = {"model": {"layers": 12, "hidden": 768, "heads": 12}, "global_batch": 4_097}
    bodies = [client.post("/api/v1/parallelism/plans?scaling=1", question, "application/json").json()]
    page = client.get(
        f"/planner/?{SMALL}&global_batch=4097&block=scaling", headers={"HX-Request": "true"}
    ).content.decode()
    assert "8 cluster sizes left to plan." in page
    assert 'hx-trigger="load"' in page
    while bodies[-1]["scaling_left"]:
        bodies.append(client.post("/api/v1/parallelism/plans?scaling=1", question, "application/json").json())
    assert [body["scaling_left"] for body in bodies] == [9, 7, 6, 5, 4, 3, 2, 1, 0]
    assert len({point["gpus"] for point in bodies[-1]["scaling"]}) == len(bodies[-1]["scaling"])


def test_rest_gives_the_same_plan_with_its_parts(client: Client) -> None:
    question = {"model": {"layers": 12, "hidden": 768, "heads": 12}, "gpus": 8, "tokens_billions": 1}
    body = client.post("/api/v1/parallelism/plans?scaling=1", question, "application/json").json()
    best = body["plans"][0]
    assert best["title"].startswith("DP 8")
    assert sum(best["step_seconds"].values()) == pytest.approx(best["step_ms"] / 1_000, abs=0.001)
    assert best["memory_bytes"]["total"] == sum(
        size for name, size in best["memory_bytes"].items() if name != "total"
    )
    assert (body["scaling"][0]["gpus"], body["scaling_left"]) == (8, 0)


def test_each_plan_has_the_block_of_a_job_file(client: Client) -> None:
    question = {"model": {"layers": 32, "hidden": 4096, "heads": 32}, "gpus": 64}
    body = client.post("/api/v1/parallelism/plans", question, "application/json").json()
    job = {
        "name": "a",
        "team": "vision",
        "command": "python train.py",
        "gpu_type": "h100-80gb",
        "num_gpus": 64,
    }
    for plan in body["plans"]:
        spec = parse({**job, "parallel": plan["parallel"]})
        assert spec.parallel.sized(64).dimensions
        assert spec.parallel.tp == plan["layout"]["tensor"]


def test_rest_refuses_a_bad_question_by_field(client: Client) -> None:
    answer = client.post("/api/v1/parallelism/plans", {"gpus": 12}, "application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "plan_invalid")


def test_two_plans_stand_beside_each_other_and_others_can_be_chosen(client: Client) -> None:
    page = client.get(f"/planner/?{SMALL}&gpus=8").content.decode()
    assert "Plan against plan" in page
    fragment = client.get(
        f"/planner/?{SMALL}&gpus=8&block=versus&left=2&right=2", headers={"HX-Request": "true"}
    ).content.decode()
    assert fragment.count("<tbody>") == 2
    assert set(re.findall(r'<td class="n">([^<]*)</td>\s*</tr>', fragment)) == {"0 ms", "0 B"}
    wrong = client.get(
        f"/planner/?{SMALL}&gpus=8&block=versus&left=99&right=x", headers={"HX-Request": "true"}
    )
    assert wrong.status_code == 200


def test_sliders_stand_at_the_numbers_and_the_curve_has_a_point_for_each_row(client: Client) -> None:
    page = client.get(f"/planner/?{SMALL}&gpus=64&global_batch=96").content.decode()
    assert re.search(r'data-powers-of="id-gpus"[^>]*value="6"', page)
    assert re.search(r'data-powers-of="id-global_batch"[^>]*value="7"', page)
    assert re.search(r'data-powers-of="id-tokens_billions"[^>]*value="0"', page)
    curve = client.get(
        f"/planner/?{SMALL}&global_batch=4096&gpus=8&block=scaling", headers={"HX-Request": "true"}
    )
    chart = re.search(r'<script[^>]*type="application/json">(.*?)</script>', curve.content.decode())
    assert chart
    planned, straight = json.loads(chart[1])["series"]
    assert planned["x"] == [8 * 2**power for power in range(10)]
    assert all(y <= ideal for y, ideal in zip(planned["y"], straight["y"], strict=True))
