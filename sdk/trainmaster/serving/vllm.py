"""vLLM beside the model server, as a process of its own: what callers ask of /v1 goes to it as it is."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from trainmaster.serving.http import (
    TOKEN_HEADER,
    ClientLeft,
    HttpError,
    Receive,
    Send,
    answer,
    answer_error,
    read_body,
    unless_left,
)
from trainmaster.serving.runtimes.custom import LoadError
from trainmaster.serving.server import Served

log = logging.getLogger(__name__)
MODULE = "vllm.entrypoints.openai.api_server"
LOOK_SECONDS = 0.5
STOP_SECONDS = 20
CONNECT_SECONDS = 5
_HOP = {b"connection", b"transfer-encoding", b"keep-alive", b"date", b"server"}
_OWN = {b"host", b"content-length", b"authorization", TOKEN_HEADER, *_HOP}


@dataclass(frozen=True, slots=True)
class Vllm:
    """A running one. `stop` ends it."""

    process: subprocess.Popen[bytes]
    url: str

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()


def start(folder: Path, name: str, gpus: int, share: float = 1.0) -> Vllm:
    """Returns once it answers. Raises LoadError where this Python has no vLLM, and where it ends before."""
    if not folder.is_dir():
        raise LoadError(f"There is no folder {folder}.")
    if find_spec("vllm") is None:
        raise LoadError(
            "The runtime vllm needs vllm, which this Python does not have; install it on the nodes."
        )
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else a line for each request
    port = _free_port()
    vllm = Vllm(subprocess.Popen(command(folder, name, gpus, port, share)), f"http://127.0.0.1:{port}")
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        _wait(vllm, folder)
    except BaseException:
        vllm.stop()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    return vllm


def _wait(vllm: Vllm, folder: Path) -> None:
    with httpx.Client(trust_env=False, timeout=5) as client:
        while (code := vllm.process.poll()) is None:
            with contextlib.suppress(httpx.HTTPError):
                if client.get(f"{vllm.url}/health").status_code == 200:
                    return
            time.sleep(LOOK_SECONDS)
    raise LoadError(
        f"vLLM ended with code {code} before it had loaded {folder.name}; its lines above say why."
    )


def command(folder: Path, name: str, gpus: int, port: int, share: float = 1.0) -> Sequence[str]:
    """On a share of a GPU vLLM plans all of its memory within it; on a whole one as it does by itself."""
    part = ("--gpu-memory-utilization", f"{share:g}") if share < 1 else ()
    return (
        *(sys.executable, "-m", MODULE, "--model", str(folder), "--served-model-name", name),
        *("--host", "127.0.0.1", "--port", str(port), "--tensor-parallel-size", str(gpus)),
        *part,
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class VllmServer:
    """As an ASGI application. It ends this process when vLLM has ended, so that the replica is replaced."""

    def __init__(self, vllm: Vllm, served: Served) -> None:
        self._vllm, self._served = vllm, served
        patience = httpx.Timeout(None, connect=CONNECT_SECONDS)  # an answer takes as long as it takes
        limits = httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(base_url=vllm.url, timeout=patience, limits=limits, trust_env=False)
        self._watch: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        if scope["type"] != "http":
            return None
        headers = dict(scope["headers"])
        try:
            match scope["method"], scope["path"]:
                case "GET", "/v2/health/live":
                    await answer(send, 200, {"live": True})
                case "GET", "/v2/health/ready":
                    await self._ready(send)
                case method, path if path.startswith("/v1/"):
                    self._check(headers)
                    await self._forward(scope, method, receive, send)
                case _:
                    raise HttpError(404, f"{self._served.name} is served by vLLM; call /v1")
        except ClientLeft:
            return None
        except HttpError as error:
            await answer_error(send, error)

    def _check(self, headers: dict[bytes, bytes]) -> None:
        token = self._served.token.encode()
        if token and not hmac.compare_digest(headers.get(TOKEN_HEADER, b""), token):
            raise HttpError(401, "this replica answers only the platform's router; call the endpoint there")

    async def _ready(self, send: Send) -> None:
        ready = False
        with contextlib.suppress(httpx.HTTPError):
            ready = (await self._client.get("/health", timeout=2)).status_code == 200
        await answer(send, 200 if ready else 503, {"ready": ready})

    async def _forward(self, scope: Any, method: str, receive: Receive, send: Send) -> None:
        """Streams go on as they come; vLLM hears when the caller leaves."""
        body = await read_body(receive)
        headers = [(name, value) for name, value in scope["headers"] if name not in _OWN]
        query = scope.get("query_string", b"").decode()
        url = f"{scope['path']}?{query}" if query else scope["path"]
        request = self._client.build_request(method, url, headers=headers, content=body)
        await unless_left(self._answered(request, send), receive)

    async def _answered(self, request: httpx.Request, send: Send) -> None:
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise HttpError(503, f"vLLM does not answer: {error!r}") from error
        try:
            kept = [(name.lower(), value) for name, value in response.headers.raw]
            kept = [(name, value) for name, value in kept if name not in _HOP]
            await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
            async for part in response.aiter_raw():
                await send({"type": "http.response.body", "body": part, "more_body": True})
        finally:
            await response.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"].rpartition(".")[2]
            if kind == "startup":
                self._watch = asyncio.create_task(self._ends())
            else:
                if self._watch is not None:
                    self._watch.cancel()
                await self._client.aclose()
                await asyncio.to_thread(self._vllm.stop)
            await send({"type": f"lifespan.{kind}.complete"})
            if kind == "shutdown":
                return

    async def _ends(self) -> None:
        while (code := self._vllm.process.poll()) is None:
            await asyncio.sleep(LOOK_SECONDS)
        log.error("vLLM ended with code %s", code)
        sys.stdout.flush()
        os._exit(abs(code) or 1)
