"""What Python takes for a digit is not always a number."""

from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from tests.webapp.world import build
from webapp.accounts.models import User
from webapp.base.parsing import whole_number
from webapp.config import settings as shipped
from webapp.sockets import subjects


@pytest.mark.parametrize("number", ["²", "٣", "-1", "1e3", "9" * 30, " 1", "1.0"])
def test_a_number_that_is_none_is_a_bad_request_everywhere(
    cast: Cast, browser: Callable[[User], Client], number: str
) -> None:
    job, client = build(cast).job, browser(cast.owner)
    addresses = ("/audit/?after=", f"/jobs/{job}/log/?after=", "/teams/vision/use.json?days=")
    rest = (f"/api/v1/training-jobs/{job}/metrics?after_step=", f"/api/v1/training-jobs/{job}/logs?after=")
    for address in (*addresses, *rest):
        assert client.get(address + number).status_code == 400, address


def test_bounds_are_named_in_the_refusal() -> None:
    assert whole_number("31", "days", 90, 1) == 31
    with pytest.raises(TrainmasterError, match="days is not valid: '91' is not a whole number from 1 to 90"):
        whole_number("91", "days", 90, 1)


def test_a_setting_with_such_a_digit_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMASTER_TICK_SECONDS", "²")
    with pytest.raises(shipped.ImproperlyConfigured, match="must be a whole number"):
        shipped.integer("TRAINMASTER_TICK_SECONDS", 2, 1, 60)


@pytest.mark.parametrize("form", [{"clone": "x" * 41}, {"clone": "job-0000000000000000"}])
def test_a_clone_of_nothing_is_not_found(
    cast: Cast, browser: Callable[[User], Client], form: dict[str, str]
) -> None:
    build(cast)
    assert browser(cast.owner).post("/jobs/submit/", form).status_code == 404


def test_a_key_that_cannot_be_kept_comes_back_with_the_form(
    cast: Cast, browser: Callable[[User], Client]
) -> None:
    build(cast)
    form = {
        "key": "k" * 201,
        "name": "x",
        "team": "vision",
        "command": "train.py",
        "gpu_type": "cpu",
        "num_gpus": "1",
    }
    assert browser(cast.owner).post("/jobs/submit/", form).status_code == 422


def test_one_kind_of_live_subject_has_one_rule() -> None:
    with pytest.raises(ValueError, match="two apps register live subjects of the kind 'job'"):
        subjects.register("job", lambda user, subject: True)
