"""A file as the answer to a request: whole or one range of it, always to be saved, never run as a page of ours."""

import re
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header

from webapp.base.connections import give_back

Block = TypeVar("Block", str, bytes)
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)


def download(
    request: HttpRequest, path: str, size: int, read: Callable[[int, int], Iterable[bytes]]
) -> HttpResponseBase:
    """`read(offset, length)` gives the bytes. 206 for one range, 416 for one beyond the end."""
    start, end, status = 0, size, 200
    if wanted := _RANGE.fullmatch(request.headers.get("Range", "").strip()):
        first, last = wanted.groups()
        if first:
            start, end, status = int(first), min(int(last) + 1 if last else size, size), 206
        elif last:
            start, status = max(0, size - int(last)), 206
        if status == 206 and start >= end:
            return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
    headers = {
        "Content-Length": str(end - start),
        "Content-Disposition": content_disposition_header(True, path.rpartition("/")[2]) or "attachment",
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
    }
    if status == 206:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    blocks = read(start, end - start) if request.method != "HEAD" else ()
    return StreamingHttpResponse(
        streamed(request, blocks), status=status, content_type="application/octet-stream", headers=headers
    )


def streamed(request: HttpRequest, blocks: Iterable[Block]) -> Iterable[Block] | AsyncIterator[Block]:
    """The content of a StreamingHttpResponse, read block after block as the caller takes them.

    Django would collect all of a plain iterator in memory before an ASGI server sends its first byte.
    """
    return _from_thread(blocks) if isinstance(request, ASGIRequest) else blocks


async def _from_thread(blocks: Iterable[Block]) -> AsyncIterator[Block]:
    """In the thread of the request, which holds no connection while the caller takes a block."""
    iterator = iter(blocks)

    def following() -> Block | None:
        try:
            return next(iterator, None)
        finally:
            give_back()

    while (block := await sync_to_async(following)()) is not None:
        yield block
