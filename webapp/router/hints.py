"""Hears at once that routes have changed. A hint that is lost costs half a second: a clock reads the routes too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from channels.layers import get_channel_layer

from webapp.serving.values import ROUTES
from webapp.sockets.subjects import group

LEAVE_SECONDS = 1.0


async def listen(changed: Callable[[], Awaitable[None]]) -> None:
    """Calls `changed` after each hint, for ever; what comes meanwhile is one call more. Raises where Valkey is away."""
    layer = get_channel_layer()
    channel = await layer.new_channel("router")
    await layer.group_add(group(ROUTES), channel)
    try:
        while True:
            await layer.receive(channel)
            await changed()
    finally:
        # A failure here would take the place of the end that the router was asked for.
        with suppress(Exception):
            async with asyncio.timeout(LEAVE_SECONDS):
                await layer.group_discard(group(ROUTES), channel)
