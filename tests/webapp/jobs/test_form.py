"""The form of a new job: what it shows first, its errors, its job file, its templates."""

import html
import json
import re
from collections.abc import Callable

import pytest
import yaml
from django.test import Client

from tests.webapp.jobs.conftest import SPEC
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM
from webapp.jobs.models import Job
from webapp.quotas import services as quotas

pytestmark = pytest.mark.usefixtures("cluster")
Browser = Callable[[User], Client]
Submit = Callable[..., Job]
FORM = {"name": "from the form", "team": "vision", "command": "train", "num_gpus": "2", "gpu_type": "cpu"}
HTMX = {"HX-Request": "true"}


def page_of(client: Client, **query: str) -> str:
    return str(client.get("/jobs/submit/", query).content.decode())


def refused(client: Client, **changes: str) -> str:
    answer = client.post("/jobs/submit/", {**FORM, **changes})
    assert answer.status_code == 422
    return html.unescape(str(answer.content.decode()))


def checked(client: Client, **changes: str) -> str:
    answer = client.post("/jobs/check/?block=check", {**FORM, **changes}, headers=HTMX)
    return html.unescape(str(answer.content.decode()))


def open_sections(page: str) -> list[str]:
    return re.findall(r"<details open>\s*<summary><span>([^<]*)", page)


def job_file(panel: str) -> object:
    found = re.search(r'<pre[^>]*id="job-file"[^>]*>(.*?)</pre>', panel, re.DOTALL)
    assert found
    return yaml.safe_load(found[1])


def test_an_empty_form_shows_the_basics_and_keeps_the_rest_closed(browser: Browser, owner: User) -> None:
    page = page_of(browser(owner))
    basics, _, advanced = page.partition('id="advanced-title"')
    assert re.findall(r'id="id-(\w+)"', basics.partition('id="job-form"')[2]) == [
        "name", "team", "code", "archive", "command", "gpu_type", "num_gpus",
    ]  # fmt: skip
    assert 'id="id-priority"' in advanced
    assert open_sections(page) == []
    assert "novalidate" in page


def test_an_error_stands_at_its_field_in_the_words_of_the_label(browser: Browser, owner: User) -> None:
    page = refused(browser(owner), max_runtime_hours="0")
    sentence = "“Time limit (h)” is 0; it must be more than 0 and at most 720"
    assert f'id="problem-max_runtime_hours">{sentence}.<' in page
    assert f'<a href="#id-max_runtime_hours">{sentence}.</a>' in page
    assert open_sections(page) == ["Resources"]
    control = re.search(r'<input id="id-max_runtime_hours"[^>]*>', page)
    assert control
    assert 'aria-invalid="true"' in control[0]
    assert 'aria-describedby="help-max_runtime_hours problem-max_runtime_hours"' in control[0]


def test_cpu_capacity_is_called_slots_also_in_errors(browser: Browser, owner: User) -> None:
    page = refused(browser(owner), min_gpus="3")
    assert "“Minimum slots” is 3, more than “CPU slots” 2" in page
    assert ">CPU slots</label>" in page


def test_an_error_inside_a_field_of_pairs_stands_at_that_field(browser: Browser, owner: User) -> None:
    page = refused(browser(owner), environment="1A=x\nTRAINMASTER_X=1")
    [problem] = re.findall(r'id="problem-environment">([^<]*)', page)
    assert "'1A' cannot name an environment variable" in problem
    assert "TRAINMASTER_X begins with TRAINMASTER_" in problem


def test_a_field_nobody_has_filled_in_yet_is_missing_not_wrong(browser: Browser, owner: User) -> None:
    assert "Still needed: Name, Command" in checked(browser(owner), name="", command="")
    assert "2 fields to correct" in checked(browser(owner), name="", num_gpus="none")


def test_a_clone_opens_only_what_is_not_as_by_default(browser: Browser, owner: User, submit: Submit) -> None:
    job = submit(hyperparameters={"lr": 0.001}, checkpoint={"interval_steps": 50}, max_runtime_hours=24)
    page = page_of(browser(owner), clone=job.id)
    assert open_sections(page) == ["Checkpoints", "Experiment"]
    assert 'name="checkpoint_interval_steps" type="number" value="50"' in re.sub(r"\s+", " ", page)


def test_a_clone_submitted_as_it_is_asks_for_the_same(browser: Browser, owner: User, submit: Submit) -> None:
    job = submit(
        command=["train", "--name", "two words"], tags=["a", "b"], seed=7, preemptible=True, num_gpus=4, min_gpus=2,
        hyperparameters={"lr": 0.001, "warm": True}, node_labels={"disk": "fast"}, memory_per_gpu="1536MiB",
        checkpoint={"interval_minutes": 1.5, "keep_last": 9}, priority=60, max_restarts=0,
    )  # fmt: skip
    page = page_of(browser(owner), clone=job.id)
    answer = browser(owner).post("/jobs/submit/", fields_of(page))
    assert answer.status_code == 302
    assert Job.objects.exclude(id=job.id).get().spec == job.spec


def fields_of(page: str) -> dict[str, str]:
    """What a browser would send for the form as it stands."""
    form = page.partition('id="job-form"')[2].partition("</form>")[0]
    inputs = [
        one for one in re.findall(r"<input[^>]*>", form) if 'type="checkbox"' not in one or " checked" in one
    ]
    fields = dict(re.findall(r'<input[^>]*\bname="(\w+)"[^>]*\bvalue="([^"]*)"', "".join(inputs)))
    fields |= re.findall(r'<textarea[^>]*\bname="(\w+)"[^>]*>([^<]*)', form)
    for name, options in re.findall(r'<select[^>]*\bname="(\w+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.findall(r'value="([^"]*)"\s+selected', options) or re.findall(r'value="([^"]*)"', options)
        fields[name] = chosen[0]
    return {name: html.unescape(value) for name, value in fields.items()}


def test_the_job_file_is_what_the_form_would_submit(browser: Browser, owner: User, submit: Submit) -> None:
    form = {
        "hyperparameters": "lr=0.0003\nname=adam",
        "priority": "50",
        "max_runtime_hours": "1.5",
        "checkpoint_interval_steps": "20",
        "tags": "a b",
    }
    described = job_file(checked(browser(owner), **form))
    assert described == {
        "name": "from the form", "team": "vision", "command": "train", "gpu_type": "cpu", "num_gpus": 2,
        "max_runtime_hours": 1.5, "checkpoint": {"interval_steps": 20},
        "hyperparameters": {"lr": 0.0003, "name": "adam"}, "tags": ["a", "b"],
    }  # fmt: skip
    browser(owner).post("/jobs/submit/", {**FORM, **form})
    assert Job.objects.get().spec == submit(**described).spec  # type: ignore[arg-type]


def test_the_job_file_follows_a_form_that_is_not_complete(browser: Browser, owner: User) -> None:
    panel = checked(browser(owner), name="", num_gpus="none")
    assert job_file(panel) == {"team": "vision", "command": "train", "gpu_type": "cpu", "num_gpus": "none"}
    assert "cat > job.yaml <<'EOF' team: vision" in panel
    assert "EOF trainmaster submit job.yaml" in panel


def test_a_priority_has_its_name_and_cannot_be_chosen_where_it_would_be_refused(
    browser: Browser, owner: User, lead: User
) -> None:
    option = r'<option value="20"([^>]*)>High \(20\)</option>'
    assert re.findall(option, page_of(browser(lead))) == [""]
    assert "disabled" in re.findall(option, page_of(browser(owner)))[0]


def test_templates_fill_in_the_shape_of_the_cluster(browser: Browser, owner: User) -> None:
    page = html.unescape(page_of(browser(owner)))
    shapes = {
        label: json.loads(fields)["num_gpus"]
        for fields, label in re.findall(r'data-fill="({.*?})"[^>]*>([^<]*)<', page)
    }
    assert shapes == {"Single slot": "1", "One node, all slots": "2", "Multi-node DDP": "4", "CPU test": "1"}


def test_recent_jobs_of_ones_teams_can_be_copied(
    browser: Browser, owner: User, outsider: User, submit: Submit
) -> None:
    job = submit()
    option = f'<option value="{job.id}">{SPEC["name"]}, vision</option>'
    assert option in page_of(browser(owner))
    assert job.id not in page_of(browser(outsider))


LLAMA_8B = {
    "transformer_layers": "32", "transformer_hidden": "4096", "transformer_heads": "32", "transformer_kv_heads": "8",
    "transformer_ffn": "14336", "transformer_vocabulary": "128256", "transformer_sequence": "8192",
    "transformer_global_batch": "64", "transformer_tokens_billions": "10", "transformer_recompute": "full",
}  # fmt: skip


def estimated(client: Client, **changes: str) -> str:
    form = {**FORM, "gpu_type": "a100-80gb", "num_gpus": "8", **LLAMA_8B, **changes}
    return html.unescape(client.post("/jobs/check/?block=estimate", form, headers=HTMX).content.decode())


def test_a_job_that_says_what_it_trains_is_estimated_with_its_layout_days_and_cost(
    browser: Browser, owner: User
) -> None:
    quotas.set_price(SYSTEM, "a100-80gb", 2_000_000)
    said = estimated(browser(owner), parallel_fsdp="8")
    assert re.search(
        r"Fits on 8 x a100-80gb with FSDP 8, full recompute; \d+ d[ 0-9h]*, \$1,\d{3}\.\d\d\.", said
    )
    assert "block=estimate" in checked(browser(owner), **LLAMA_8B)
    assert "block=estimate" not in checked(browser(owner), transformer_precision="bf16")


def test_one_that_does_not_fit_is_told_why_and_what_would(browser: Browser, owner: User) -> None:
    said = estimated(browser(owner), parallel_dp="8", transformer_recompute="none")
    assert "estimated bad" in said
    assert "Does not fit on 8 x a100-80gb with DDP 8: needs" in said
    assert "would fit" in said


def test_it_is_estimated_before_it_has_a_name_and_not_where_the_shape_is_wrong(
    browser: Browser, owner: User
) -> None:
    assert "May not fit on" in estimated(browser(owner), name="", command="")
    assert "estimated" not in estimated(browser(owner), transformer_heads="7")
    assert "no figures of cpu" in estimated(browser(owner), gpu_type="cpu")


def test_a_truth_that_is_so_by_default_can_be_denied_in_the_form(browser: Browser, owner: User) -> None:
    panel = checked(browser(owner), **LLAMA_8B, transformer_gated="false", transformer_biases="true")
    said = job_file(panel)
    assert isinstance(said, dict)
    assert (said["transformer"]["gated"], said["transformer"]["biases"]) == (False, True)
    plain = job_file(checked(browser(owner), **LLAMA_8B, transformer_gated="true"))
    assert isinstance(plain, dict)
    assert "gated" not in plain["transformer"]
