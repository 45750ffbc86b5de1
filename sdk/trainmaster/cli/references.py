"""How people name jobs and nodes: the platform resolves names, and the shell completes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
import httpx
from click.shell_completion import CompletionItem

from platform_core import ids
from trainmaster.cli.session import connect
from trainmaster.client import Client

HELP = """JOB is an id, the beginning of one, NAME or TEAM/NAME. Of several jobs with the name in one team the newest
    counts; a name that several of your teams use is refused with the candidates."""
COMPLETION_TIMEOUT = httpx.Timeout(1.0)  # seconds; a slow platform must not block the shell


def job_id(client: Client, reference: str) -> str:
    """The id of the job that the reference names."""
    return reference if ids.is_id(reference, ids.JOB) else client.find_job(reference).id


class _Completed(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no argument
    """A text that the shell completes by asking the platform. Without an answer it completes nothing."""

    def __init__(self, name: str, ask: Callable[[Client, str], Iterable[CompletionItem]]) -> None:
        self.name, self._ask = name, ask

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        try:
            with connect(COMPLETION_TIMEOUT) as client:
                return list(self._ask(client, incomplete))
        except Exception:
            return []


def _jobs(client: Client, incomplete: str) -> Iterable[CompletionItem]:
    """Names, each once, and the ids when an id was begun."""
    seen: set[str] = set()
    for job in client.jobs(limit=50, search=incomplete):
        text = job.id if incomplete and job.id.startswith(incomplete) else job.name
        if text.startswith(incomplete) and text not in seen:
            seen.add(text)
            yield CompletionItem(text, help=f"{job.state}, {job.team}")


def _nodes(client: Client, incomplete: str) -> Iterable[CompletionItem]:
    return [
        CompletionItem(node.hostname, help=node.state)
        for node in client.nodes()
        if node.hostname.startswith(incomplete)
    ]


JOB = _Completed("job", _jobs)
NODE = _Completed("node", _nodes)
