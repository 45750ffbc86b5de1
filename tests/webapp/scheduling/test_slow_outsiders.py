"""Servers that members name and that drip a byte every few seconds hold up nobody else's jobs."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from celery import current_app
from django.conf import LazySettings
from django.core.cache import cache

from tests.support.replicas import another_process
from tests.webapp.conftest import Cast
from tests.webapp.scheduling.test_processes import ended, go_on
from webapp.accounts import sealing
from webapp.accounts.queries import actor_of
from webapp.alerts.models import Channel, Notice
from webapp.base.identity import now_ms
from webapp.datasets import services as datasets
from webapp.jobs.models import Job
from webapp.operations import programs
from webapp.quotas.models import Quota

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cluster")]
PATIENCE_S = 60


class Dripping:
    """Takes each connection and sends the beginning of an answer, byte after byte, without end."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.2", 0))
        self.port = self._listener.getsockname()[1]
        self.asked, self._over = threading.Event(), threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.asked.set()
            threading.Thread(target=self._drip, args=[client], daemon=True).start()

    def _drip(self, client: socket.socket) -> None:
        with client:
            for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1000:
                try:
                    client.sendall(bytes([byte]))
                except OSError:
                    return
                if self._over.wait(3):
                    return

    def close(self) -> None:
        self._over.set()
        self._listener.close()


@pytest.fixture
def dripping() -> Iterator[list[Dripping]]:
    servers = [Dripping() for _ in range(3)]
    yield servers
    for server in servers:
        server.close()


def test_two_slow_sources_and_a_slow_webhook_keep_no_job_waiting(
    cast: Cast, submit: Callable[..., Job], dripping: list[Dripping], settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.OUTBOUND_HOSTS = ["127.0.0.2"]
    monkeypatch.setenv("TRAINMASTER_OUTBOUND_HOSTS", "127.0.0.2")  # of the programs
    Quota.objects.update(maximum=100)
    first, second, receiver = dripping
    address = f"http://127.0.0.2:{receiver.port}/"
    channel = Channel.objects.create(
        name="slow", kind=Channel.Kind.WEBHOOK, address=sealing.seal(address), shown=address, key=b"",
        made_by="lena", made_ms=now_ms(),
    )  # fmt: skip
    Notice.objects.create(
        id="notice-1", channel=channel, state="firing", title="x", text="x", made_ms=now_ms(), next_try_ms=now_ms()
    )  # fmt: skip
    with another_process("-m", *programs.SCHEDULER), another_process("-m", *programs.WORKER):
        for person, server in ((cast.owner, first), (cast.member, second)):
            url = f"http://127.0.0.2:{server.port}"
            datasets.register_source(
                actor_of(person), "vision", f"of {person}", url, "train", paths=["a.bin"]
            )
        current_app.send_task("alerts.deliver", retry=False)
        for server in dripping:
            assert server.asked.wait(PATIENCE_S), "the worker asks none of them"
        jobs = [submit(name="of another team", num_gpus=2)]
        cache.delete("scheduling:asked")
        current_app.send_task("scheduling.tick", retry=False)
        go_on(jobs, ended(jobs, 1))
