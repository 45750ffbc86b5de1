"""The one live socket: a page joins the subjects it shows and hears when they change."""

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer

from webapp.live import subjects
from webapp.live.identity import now_ms
from webapp.live.outbox import merge

MESSAGE_GAP_S = 0.25  # at most four messages a second for each subject
SUBJECTS_PER_SOCKET = 100


class LiveConsumer(AsyncJsonWebsocketConsumer):
    """In: {"join": [subject, …], "age_ms": …} or {"leave": […]}.
    Out: {"joined": s}, {"refused": s}, {"subject": s, "data": {…}}.

    `age_ms` says for how long the page has been on its way: what changed since then may be missing in it, and
    {"subject": s, "data": {"missed": true}} says so.

    What arrives faster than the page may be told is merged: later values win, lists are joined.
    """

    async def connect(self) -> None:
        self.joined: set[str] = set()
        self.pending: dict[str, dict[str, Any]] = {}
        self.timers: dict[str, asyncio.Task[None]] = {}
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.accept()
            await self.close(code=4401)  # after accepting, so that the browser sees the code
            return
        await self.accept()

    async def disconnect(self, code: int) -> None:
        for task in self.timers.values():
            task.cancel()
        for subject in self.joined:
            await self.channel_layer.group_discard(subjects.group(subject), self.channel_name)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        if not isinstance(content, dict):
            return
        age_ms = content.get("age_ms")
        since_ms = now_ms() - age_ms if isinstance(age_ms, int) else None
        for subject in _names(content.get("join")):
            await self._join(subject, since_ms)
        for subject in _names(content.get("leave")):
            if subject in self.joined:
                self.joined.discard(subject)
                await self.channel_layer.group_discard(subjects.group(subject), self.channel_name)

    async def _join(self, subject: str, since_ms: int | None) -> None:
        allowed = len(self.joined) < SUBJECTS_PER_SOCKET and await sync_to_async(subjects.may_watch)(
            self.scope["user"], subject
        )
        if not allowed:
            await self.send_json({"refused": subject})
            return
        self.joined.add(subject)
        await self.channel_layer.group_add(subjects.group(subject), self.channel_name)
        # Looked up before the page hears that it has joined: what changes after that arrives as itself.
        missed = since_ms is not None and await sync_to_async(subjects.changed_since)(subject, since_ms)
        await self.send_json({"joined": subject})
        if missed:
            await self.send_json({"subject": subject, "data": {"missed": True}})

    async def live_changed(self, message: dict[str, Any]) -> None:
        subject = message["subject"]
        if subject not in self.joined:
            return
        if subject in self.pending:
            merge(self.pending[subject], message["data"])
        elif subject in self.timers:
            self.pending[subject] = dict(message["data"])
        else:
            await self.send_json({"subject": subject, "data": message["data"]})
            self.timers[subject] = asyncio.create_task(self._after_gap(subject))

    async def _after_gap(self, subject: str) -> None:
        await asyncio.sleep(MESSAGE_GAP_S)
        while subject in self.pending:
            await self.send_json({"subject": subject, "data": self.pending.pop(subject)})
            await asyncio.sleep(MESSAGE_GAP_S)
        del self.timers[subject]


def _names(value: Any) -> list[str]:
    return (
        [name for name in value if isinstance(name, str)][:SUBJECTS_PER_SOCKET]
        if isinstance(value, list)
        else []
    )
