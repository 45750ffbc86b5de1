"""What may be sent to which address, before anything of it is read: Django writes a body to the disk before it asks who
sends it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core import signing
from django.db import connections

from platform_core.units import GIB, MIB, format_bytes
from webapp.accounts import tokens
from webapp.base.pacing import Body, Message, Receive, TooLarge, TooSlow
from webapp.config.refusals import refuse
from webapp.mlflow.artifacts import PART_SALT, PART_SECONDS

Send = Callable[[Message], Awaitable[None]]
Application = Callable[..., Awaitable[None]]

ANONYMOUS = 64 << 10  # a login, a password, a report of the browser
FORM = MIB  # of what a form has around its files
_PART = re.compile(r"/api/2\.0/mlflow-artifacts/parts/([^/]+)")


def limits() -> tuple[tuple[re.Pattern[str], int], ...]:
    """The most bytes that an address takes of somebody who is known. The first that fits counts."""
    return (
        (re.compile(r"/api/v1/uploads/[^/]+/files/"), settings.UPLOAD_LIMIT_BYTES),
        (re.compile(r"/api/v1/runs/[^/]+/(files|uploads)/"), settings.UPLOAD_LIMIT_BYTES),
        (re.compile(r"/(ajax-)?api/2\.0/mlflow-artifacts/"), settings.UPLOAD_LIMIT_BYTES),
        (re.compile(r"/(ajax-api/2\.0/mlflow/)?upload-artifact"), settings.UPLOAD_LIMIT_BYTES),
        (re.compile(r"/api/v1/runs/[^/]+/values$"), 64 * MIB),
        (re.compile(r"/jobs/code/$"), GIB + FORM),
        (re.compile(r"/"), settings.DATA_UPLOAD_MAX_MEMORY_SIZE + FORM),
    )


class Intake:
    """Refuses a body that is too large for its address, or too large for somebody unknown, before a byte of it is read;
    and one that grows beyond that or comes too slowly, when it does."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._limits = limits()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        promised = _promised(headers)
        if promised == 0:
            await self._application(scope, receive, send)
            return
        limit, known = ANONYMOUS, True
        if promised is None or promised > ANONYMOUS:
            known = await _is_known(scope["path"], headers)
            if not known and promised is not None:
                await refuse(scope, send, "not_authenticated", closing=True)
                return
            if known:
                limit = next(limit for place, limit in self._limits if place.match(scope["path"]))
        if promised is not None and promised > limit:
            await _too_large(scope, send, limit)
            return
        await self._bounded(scope, Body(receive, limit), send, limit, known)

    async def _bounded(
        self, scope: dict[str, Any], body: Body, send: Send, limit: int, is_known: bool
    ) -> None:
        begun, ended = False, ""

        async def reading() -> Message:
            nonlocal ended
            try:
                return await body()
            except TooLarge:
                ended = "too_large"
            except TooSlow:
                ended = "too_slow"
            return {"type": "http.disconnect"}

        async def answering(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        await self._application(scope, reading, answering)
        if begun or not ended:
            return
        if ended == "too_slow":
            await refuse(scope, send, "too_slow", closing=True)
        elif is_known:
            await _too_large(scope, send, limit)
        else:
            await refuse(scope, send, "not_authenticated", closing=True)


async def _too_large(scope: dict[str, Any], send: Send, limit: int) -> None:
    shown = format_bytes(limit)
    await refuse(scope, send, "too_large", closing=True, what="the body", size=f"over {shown}", limit=shown)


def _promised(headers: Mapping[bytes, bytes]) -> int | None:
    """The length of the body by its headers; None where it comes in chunks."""
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() else None


async def _is_known(path: str, headers: Mapping[bytes, bytes]) -> bool:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    session = _session_key(headers.get(b"cookie", b"").decode("latin-1"))
    part = _PART.fullmatch(path)
    if not (bearer or session or part):
        return False
    found = await sync_to_async(_look, thread_sensitive=False)(bearer, session, part[1] if part else "")
    return bool(found)


def _session_key(cookies: str) -> str:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(cookies)
    except CookieError:
        return ""
    return jar[settings.SESSION_COOKIE_NAME].value if settings.SESSION_COOKIE_NAME in jar else ""


def _look(bearer: str, session: str, part: str) -> bool:
    """Cheap, and only whether there is such a credential: the application asks what it may do."""
    try:
        if bearer:
            return tokens.find(bearer) is not None
        if part:
            signing.loads(part, salt=PART_SALT, max_age=PART_SECONDS)
            return True
        store = import_module(settings.SESSION_ENGINE).SessionStore(session)
        return "_auth_user_id" in store
    except signing.BadSignature:
        return False
    finally:
        connections.close_all()
