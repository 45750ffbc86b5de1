"""TensorBoard behind the login: started by a button, reached through a reverse proxy."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from webapp.accounts.queries import actor_of
from webapp.pages import fragments
from webapp.pages.tensorboard import boards
from webapp.pages.tensorboard.boards import Address, Board
from webapp.pages.tensorboard.subjects import Subject, subject_of

TIMEOUT = httpx.Timeout(60.0, connect=2.0)
LARGEST_REQUEST = 1 << 20
LARGEST_ANSWER = 128 << 20  # it reads what people logged
_FORWARDED = ("Accept", "Accept-Encoding", "Accept-Language", "Content-Type")  # no cookie, no token
_RETURNED = ("Content-Type", "Content-Encoding", "Cache-Control", "Expires", "Content-Disposition")


@dataclass(frozen=True, slots=True)
class WaitingPage:
    key: str
    subject: Subject
    starting: bool
    trouble: str
    idle_minutes: int


@login_required
@require_POST
def start(request: HttpRequest, key: str) -> HttpResponse:
    subject_of(actor_of(request), key)
    _require_enabled()
    Board(key).start()
    return redirect("tensorboard:board", key, "")


@csrf_exempt  # its page sends no token of ours, and it has nothing that a request could change
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def board(request: HttpRequest, key: str, path: str) -> HttpResponse:
    """Checks on each request that the runs may be seen, then asks TensorBoard."""
    subject = subject_of(actor_of(request), key)
    _require_enabled()
    wanted = Board(key)
    address = wanted.address()
    if address is None:
        if path or request.method == "POST":
            raise TrainmasterError(
                "unavailable", f"The TensorBoard of {subject.title} does not run; open it again"
            )
        return _waiting(request, wanted, subject)
    wanted.touch()
    return _forward(request, key, path, address)


def _waiting(request: HttpRequest, board: Board, subject: Subject) -> HttpResponse:
    """Asks the browser to come again while it starts."""
    starting = board.is_alive()
    idle_minutes = settings.TENSORBOARD_IDLE_SECONDS // 60
    page = WaitingPage(board.key, subject, starting, board.trouble(), idle_minutes)
    response = fragments.render(request, "tensorboard/waiting.html", page)
    response["Cache-Control"] = "no-store"
    if starting:
        response["Refresh"] = "1"
    return response


def _forward(request: HttpRequest, key: str, path: str, address: Address) -> HttpResponse:
    if len(request.body) > LARGEST_REQUEST:
        raise TrainmasterError("too_large", what="the request", size=len(request.body), limit=LARGEST_REQUEST)
    url = httpx.URL(
        scheme="http", host="127.0.0.1", port=address.port, path=f"/{address.secret}/{path}",
        query=request.META.get("QUERY_STRING", "").encode(),
    )  # fmt: skip
    headers = {"Accept-Encoding": "identity"}
    headers |= {name: request.headers[name] for name in _FORWARDED if name in request.headers}
    try:
        with (
            httpx.Client(timeout=TIMEOUT, trust_env=False) as client,
            client.stream(request.method or "GET", url, headers=headers, content=request.body) as answer,
        ):
            content = _all(answer)
    except httpx.HTTPError as error:
        raise TrainmasterError(
            "unavailable", f"TensorBoard does not answer: {type(error).__name__}"
        ) from error
    if answer.is_redirect:  # its only one: from its address without the last slash
        return redirect("tensorboard:board", key, "")
    response = HttpResponse(content, status=answer.status_code)
    for name in _RETURNED:
        if name in answer.headers:
            response[name] = answer.headers[name]
    response["Content-Security-Policy"] = _policy(
        f"{request.get_host()}{reverse('tensorboard:board', args=[key, ''])}"
    )
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _all(answer: httpx.Response) -> bytes:
    parts, size = [], 0
    for part in answer.iter_raw():
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            raise TrainmasterError(
                "too_large", what="the answer of TensorBoard", size=f"over {format_bytes(LARGEST_ANSWER)}",
                limit=format_bytes(LARGEST_ANSWER),
            )  # fmt: skip
    return b"".join(parts)


def _policy(place: str) -> str:
    """TensorBoard's script runs below its own address alone: it can neither ask our pages and REST for anything nor
    open one of them in a window that it could read."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {place} 'unsafe-eval'",
            f"style-src {place} 'unsafe-inline' data:",
            f"img-src {place} data: blob:",
            f"font-src {place} data:",
            f"media-src {place} data: blob:",
            f"connect-src {place}",
            f"frame-src {place}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "sandbox allow-scripts allow-same-origin allow-downloads allow-modals",
        )
    )


def _require_enabled() -> None:
    if not boards.is_enabled():
        sentence = "This platform runs no TensorBoards; an operator has switched them off"
        raise TrainmasterError("unavailable", sentence)
