"""The one live socket: a page joins the subjects it shows and hears when they change."""

import asyncio
import json
import logging
import re
from importlib import import_module
from typing import Any

from asgiref.sync import sync_to_async
from channels.auth import get_user
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError

from webapp.base.identity import now_ms
from webapp.sockets import subjects
from webapp.sockets.outbox import merge

MESSAGE_GAP_S = 0.25  # at most four messages a second for each subject
NUMBERS_GAP_S = 1.0  # of those that bring numbers
ASK_AGAIN_S = (
    30.0  # how long a socket may outlive a permission at most; mostly it hears of the change at once
)
SUBJECTS_PER_SOCKET = 100
NUMBERS_PER_SUBJECT = 50_000


log = logging.getLogger(__name__)
_NAME = re.compile(r"[^\x00-\x1f\ud800-\udfff]{1,300}")


class LiveConsumer(AsyncJsonWebsocketConsumer):
    """In: {"join": [subject, …], "age_ms": …}, {"leave": […]} or {"shows": {subject: [name, …]}}.
    Out: {"joined": s}, {"refused": s}, {"subject": s, "data": {…}}.

    `age_ms` says for how long the page has been on its way: what changed since then may be missing in it, and
    {"subject": s, "data": {"missed": true}} says so.

    What arrives faster than the page may be told is merged: later values win, lists are joined.

    Of a subject with numbers the page says which it shows, and `data` has those of them that are not as it was told
    last: {"values": {name: text}}.

    Permission is asked when a subject is joined, when the person's teams or session change, and from time to time. What
    is no such message is left out.
    """

    async def connect(self) -> None:
        self.joined: set[str] = set()
        self.person = ""
        self.pending: dict[str, dict[str, Any]] = {}
        self.timers: dict[str, asyncio.Task[None]] = {}
        self.shown: dict[str, dict[str, str | None]] = {}  # by subject what the page was told, by name
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.accept()
            await self.close(code=4401)  # after accepting, so that the browser sees the code
            return
        self.person = f"person:{user.pk}"
        await self.channel_layer.group_add(subjects.group(self.person), self.channel_name)
        await self.accept()
        self.timers[self.person] = asyncio.create_task(self._keep_asking())

    async def disconnect(self, code: int) -> None:
        if self.person:
            await self.channel_layer.group_discard(subjects.group(self.person), self.channel_name)
        for task in self.timers.values():
            task.cancel()
        for subject in self.joined:
            await self.channel_layer.group_discard(subjects.group(subject), self.channel_name)

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any
    ) -> None:
        try:
            content = json.loads(text_data or "")
        except (ValueError, RecursionError):
            return
        await self.receive_json(content)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        if not isinstance(content, dict):
            return
        age_ms = content.get("age_ms")
        since_ms = now_ms() - age_ms if isinstance(age_ms, int) else None
        for subject in _names(content.get("join")):
            await self._join(subject, since_ms)
        for subject in _names(content.get("leave")):
            if subject in self.joined:
                await self._leave(subject)
        shows = content.get("shows")
        for subject, names in shows.items() if isinstance(shows, dict) else ():
            if subject in self.joined and subjects.has_numbers(subject):
                shown = self.shown.get(subject, {})
                self.shown[subject] = {name: shown.get(name) for name in _names(names, NUMBERS_PER_SUBJECT)}

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

    async def _leave(self, subject: str) -> None:
        self.joined.discard(subject)
        self.shown.pop(subject, None)
        self.pending.pop(subject, None)
        await self.channel_layer.group_discard(subjects.group(subject), self.channel_name)

    async def _keep_asking(self) -> None:
        while True:
            await asyncio.sleep(ASK_AGAIN_S)
            try:
                await self._ask_again()
            except DatabaseError as error:
                log.warning("permissions of %s are not asked again now: %s", self.person, error)

    async def _ask_again(self) -> None:
        """Ends what this person may no longer watch, or all of it where the session is over."""
        if "session" in self.scope:
            session = import_module(settings.SESSION_ENGINE).SessionStore(self.scope["session"].session_key)
            self.scope["user"] = await get_user({**self.scope, "session": session})
            if not self.scope["user"].is_authenticated:
                for subject in sorted(self.joined):
                    await self._leave(subject)
                await self.close(code=4401)
                return
        for subject in sorted(self.joined):
            if not await sync_to_async(subjects.may_watch)(self.scope["user"], subject):
                await self._leave(subject)
                await self.send_json({"refused": subject})

    async def live_changed(self, message: dict[str, Any]) -> None:
        subject = message["subject"]
        if subject == self.person:
            await self._ask_again()
            return
        if subject not in self.joined:
            return
        merge(self.pending.setdefault(subject, {}), message["data"])
        if subject not in self.timers:
            self.timers[subject] = asyncio.create_task(self._tell(subject))

    async def _tell(self, subject: str) -> None:
        """What is there at once, and what has come in the meantime after the gap."""
        gap_s = NUMBERS_GAP_S if subjects.has_numbers(subject) else MESSAGE_GAP_S
        try:
            while subject in self.pending:
                data = self.pending.pop(subject)
                await self.send_json({"subject": subject, "data": data | await self._numbers(subject)})
                await asyncio.sleep(gap_s)
        finally:
            del self.timers[subject]

    async def _numbers(self, subject: str) -> dict[str, Any]:
        if subject not in self.shown:
            return {}
        now = await sync_to_async(subjects.numbers)(subject)
        shown = self.shown[subject]
        fresh = {name: now[name] for name, text in shown.items() if name in now and now[name] != text}
        shown.update(fresh)
        return {"values": fresh} if fresh else {}


def _names(value: Any, most: int = SUBJECTS_PER_SOCKET) -> list[str]:
    names = value if isinstance(value, list) else []
    return [name for name in names if isinstance(name, str) and _NAME.fullmatch(name)][:most]
