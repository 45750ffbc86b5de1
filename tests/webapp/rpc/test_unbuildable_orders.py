"""What the platform cannot put into an order fails that attempt, with its reason; the rest of the node goes on."""

import asyncio
from collections.abc import Callable

import grpc
import pytest
from django.test import Client

from platform_core.jobs.job import MemberPhase
from platform_core.node.wanted import AttemptWanted, WantedAction
from tests.webapp.conftest import credential_of
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import after_its_pause, say, state, tick
from tests.webapp.rpc.agents import connected, order, whole_gateway
from trainmaster_wire.agent.v1 import session_pb2
from webapp.accounts import services as accounts
from webapp.accounts.models import Team, TeamSecret, User
from webapp.accounts.queries import actor_of
from webapp.jobs import services
from webapp.jobs.models import Attempt, Job, Member
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.rpc.wanted import wanted_states

RUN = session_pb2.AttemptWanted.RUN


@pytest.fixture
def alone(node: Callable[..., Node], vision: Team, quota: Callable[..., Quota]) -> Node:
    quota(vision)
    return node("node-1", slots=4)


@pytest.fixture
def secret(alone: Node, lead: User) -> str:
    accounts.set_secret(actor_of(lead), "vision", "TEMP_KEY", "hunter2-hunter2")
    return "TEMP_KEY"


def orders(node: Node) -> dict[str, AttemptWanted]:
    (wanted,) = wanted_states([node.id])
    return {each.attempt_id: each for each in wanted.attempts}


def attempt_of(job: Job) -> str:
    return str(Attempt.objects.filter(job=job).latest("number").id)


def lost_row() -> None:
    TeamSecret.objects.all().delete()


def sealed_with_another_key() -> None:
    TeamSecret.objects.update(ciphertext=b"gAAAA-not-ours")


def refused_by_this_version() -> None:
    Job.objects.filter(spec__secrets=["TEMP_KEY"]).update(
        spec={"name": "old", "strategy": "parameter-server"}
    )


@pytest.mark.parametrize("harm", [lost_row, sealed_with_another_key, refused_by_this_version])
def test_an_order_that_cannot_be_made_fails_its_attempt_and_no_other(
    harm: Callable[[], None], alone: Node, secret: str, submit: Callable[..., Job]
) -> None:
    healthy = submit(num_gpus=1)
    broken = submit(num_gpus=1, secrets=[secret])
    tick()
    attempt = attempt_of(broken)
    harm()
    assert list(orders(alone)) == [attempt_of(healthy)]
    member = Member.objects.get(attempt=attempt)
    assert (member.phase, member.drained) == ("exited", True)
    failed = Job.objects.get(id=broken.id)
    assert (failed.end, failed.reason.partition(": it was refused: ")[1] != "") == ("refused", True)


def test_a_job_whose_orders_can_never_be_made_ends_with_the_reason_instead_of_starting_again_for_ever(
    alone: Node, secret: str, submit: Callable[..., Job]
) -> None:
    job = submit(num_gpus=1, secrets=[secret])
    lost_row()
    for _ in range(2):
        after_its_pause(job)
        tick()
        orders(alone)
    assert state(job) == "failed"
    assert "Team vision has no secret TEMP_KEY" in Job.objects.get(id=job.id).reason


def test_what_runs_already_goes_on_without_the_order_that_cannot_be_made_again(
    alone: Node, secret: str, submit: Callable[..., Job]
) -> None:
    job = submit(num_gpus=1, secrets=[secret])
    tick()
    say(job, MemberPhase.RUNNING)
    lost_row()
    order_of_it = orders(alone)[attempt_of(job)]
    assert (order_of_it.action, order_of_it.launch) == (WantedAction.RUN, None)
    assert state(job) == "running"


def test_a_lost_checkpoint_fails_the_attempt_that_should_begin_from_it(
    alone: Node, submit: Callable[..., Job]
) -> None:
    job = submit(num_gpus=1)
    tick()
    Attempt.objects.filter(job=job).update(resume_checkpoint="ckpt-0000000000000000")
    assert orders(alone) == {}
    assert "ckpt-0000000000000000" in Job.objects.get(id=job.id).reason


def test_a_secret_of_a_job_that_has_not_ended_is_not_deleted(
    alone: Node, secret: str, submit: Callable[..., Job], lead: User, browser: Callable[[User], Client]
) -> None:
    job = submit(name="needs-a-key", secrets=[secret])
    refused = browser(lead).post(f"/teams/vision/secrets/{secret}/delete/", follow=True).content.decode()
    assert f"Secret {secret} is used by needs-a-key ({job.id})" in refused
    assert TeamSecret.objects.count() == 1
    services.cancel(actor_of(lead), job.id)
    accounts.delete_secret(actor_of(lead), "vision", secret)
    assert TeamSecret.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_a_node_whose_job_lost_its_secret_keeps_its_session_and_gets_other_work(
    alone: Node, secret: str, submit: Callable[..., Job], threads_that_leave: None
) -> None:
    broken = submit(num_gpus=1, secrets=[secret])
    tick()
    lost_row()
    other = submit(num_gpus=1)
    tick()
    wanted, credential = attempt_of(other), credential_of(alone)

    async def talk() -> None:
        async with whole_gateway() as address, grpc.aio.insecure_channel(address) as channel:
            call = await connected(channel, alone, credential, slots=4)
            order_of_other = await order(
                call, lambda state: [each.attempt_id for each in state.attempts] == [wanted]
            )
            assert order_of_other.attempts[0].action == RUN

    asyncio.run(talk())
    assert state(broken) != "scheduled"
