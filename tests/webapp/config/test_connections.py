"""Requests that nobody waits for any more give their connections back, so that the pages of the others are served."""

import json
from typing import Any

import pytest

from tests.support.replicas import another_process
from webapp.accounts.models import User

# The web process's own application; it is asked as an ASGI server asks it.
PROCESS = """
import asyncio, json, sys, threading
from webapp.config import asgi
from django.db import connection
from django.http import StreamingHttpResponse, HttpResponse
from django.urls import path
from webapp.accounts.models import User
from webapp.base.connections import outside
from webapp.base.downloads import streamed
from webapp.config import urls
from webapp.config.patience import Patience

over = threading.Event()
def slow(request):
    User.objects.count()
    over.wait(60)
    User.objects.count()
    return HttpResponse("late")
def waits_outside(request):
    User.objects.count()
    with outside():
        over.wait(60)
    return HttpResponse("late")
def endless(request):
    def blocks():
        while True:
            User.objects.count()
            yield b"x" * 1000
    return StreamingHttpResponse(streamed(request, blocks()))
def held(request):
    return HttpResponse(str(User.objects.count()))
urls.urlpatterns += [
    path("slow/", slow), path("outside/", waits_outside), path("endless/", endless), path("page/", held)
]
impatient = Patience(asgi.http, 0.5)

def scope(where):
    return {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": where,
            "raw_path": where.encode(), "query_string": b"", "root_path": "", "scheme": "http",
            "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}

async def ask(application, where, leaves=None, takes=None):
    "The status; 0 where nothing came."
    status, given = [0], [False]
    async def receive():
        if not given[0]:
            given[0] = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await (leaves or asyncio.Event()).wait()
        return {"type": "http.disconnect"}
    async def send(message):
        if message["type"] == "http.response.start":
            status[0] = message["status"]
        elif takes is not None:
            await takes.wait()
    await application(scope(where), receive, send)
    return status[0]

async def all_back():
    "Until each connection is in the pool again; the test ends the process where that never comes."
    while True:
        figures = connection.pool.get_stats()
        if figures["pool_available"] == figures["pool_size"]:
            return figures["pool_size"]
        await asyncio.sleep(0.05)

async def timed_out(where, count):
    return await asyncio.gather(*(ask(impatient, where) for _ in range(count)))

async def main(kind, count):
    if kind == "first":
        print(json.dumps(await ask(asgi.application, "/healthz")), flush=True)
        return
    if kind == "disconnect":
        leaves = asyncio.Event()
        asking = [asyncio.ensure_future(ask(asgi.application, "/slow/", leaves)) for _ in range(count)]
        while connection.pool.get_stats()["pool_available"]:
            await asyncio.sleep(0.05)
        leaves.set()
        over.set()
        statuses = await asyncio.gather(*asking)
    elif kind == "endless":
        statuses = await asyncio.gather(*(ask(impatient, "/endless/", takes=asyncio.Event()) for _ in range(count)))
    else:
        statuses = await timed_out(f"/{kind}/", count)
    during = await ask(asgi.application, "/page/") if kind == "outside" else 200
    over.set()
    size = await all_back()
    print(json.dumps({"statuses": sorted(set(statuses)), "during": during, "size": size,
                      "after": await ask(asgi.application, "/page/"),
                      "ready": await ask(asgi.application, "/healthz")}), flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def answer(kind: str, count: int = 0) -> Any:
    with another_process("-c", PROCESS, kind, str(count)) as process:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    return json.loads(out.strip().splitlines()[-1])


@pytest.mark.django_db(transaction=True)
def test_a_web_process_that_has_served_nothing_yet_is_ready(owner: User) -> None:
    assert answer("first") == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("kind", "count", "statuses"),
    [
        ("slow", 30, [503]),  # their views hold a connection, and there are 24
        ("outside", 200, [503]),
        ("disconnect", 24, [0]),
        ("endless", 30, [200]),  # their callers take nothing of the answer
    ],
)
def test_a_page_is_served_after_requests_that_were_given_up(
    owner: User, kind: str, count: int, statuses: list[int]
) -> None:
    found = answer(kind, count)
    assert found["statuses"] == statuses
    assert (found["during"], found["after"], found["ready"]) == (200, 200, 200)
