"""The watching ends with the membership, and with the session."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from tests.webapp.conftest import Cast
from webapp.accounts import services as accounts
from webapp.accounts.permissions import SYSTEM
from webapp.sockets import outbox
from webapp.sockets.consumers import LiveConsumer

pytestmark = pytest.mark.django_db(transaction=True)


async def watching(client: Client, cast: Cast, subject: str) -> Any:
    communicator = WebsocketCommunicator(LiveConsumer.as_asgi(), "/ws/live/")
    communicator.scope["user"] = cast.owner
    communicator.scope["session"] = SessionStore(client.session.session_key)
    assert (await communicator.connect())[0]
    await communicator.send_json_to({"join": [subject]})
    assert await communicator.receive_json_from(10) == {"joined": subject}
    return communicator


async def test_who_leaves_a_team_hears_no_more_of_it(cast: Cast) -> None:
    client = await sync_to_async(signed_in)(cast)
    socket = await watching(client, cast, "jobs:vision")
    await sync_to_async(accounts.remove_member)(SYSTEM, "vision", "alice")
    assert await sync_to_async(outbox.flush)(10)
    assert await socket.receive_json_from(10) == {"refused": "jobs:vision"}
    await socket.disconnect()


async def test_the_sockets_of_a_session_end_with_it(cast: Cast) -> None:
    client = await sync_to_async(signed_in)(cast)
    socket = await watching(client, cast, "jobs:vision")
    await sync_to_async(client.post)("/logout/")
    assert await sync_to_async(outbox.flush)(10)
    assert (await socket.receive_output(10))["code"] == 4401


def signed_in(cast: Cast) -> Client:
    client = Client()
    client.force_login(cast.owner)
    return client
