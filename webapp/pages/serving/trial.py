"""One request to an endpoint from its page, the way that callers go: through the router."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from platform_core.errors import TrainmasterError
from trainmaster import gate, outbound
from webapp.accounts import permissions, tokens
from webapp.accounts.queries import actor_of
from webapp.pages.serving import views

PATIENCE = 60.0  # seconds; an endpoint that is scaled to zero starts a replica first
LONGEST = 4_000  # characters of an answer that are shown
MOST_BYTES = 4 << 20  # of an answer
TOKENS = 64


@dataclass(frozen=True, slots=True)
class Trial:
    """`text` goes on where the input ended, `answer` is what came otherwise; `problem` says why nothing came."""

    kind: str = "completion"
    input: str = ""
    text: str = ""
    answer: str = ""
    problem: str = ""
    ms: int = 0


@login_required
@require_POST
def trial(request: HttpRequest, team: str, name: str) -> HttpResponse:
    actor = actor_of(request)
    permissions.require(actor, "endpoint.call", team, what=f"endpoint {name} in team {team}")
    kind, given = request.POST.get("kind", ""), request.POST.get("input", "")
    address = f"{settings.ROUTER_URL}/endpoints/{team}/{name}"
    found = asked(address, tokens.create_pass(actor), kind, given, name)
    return views.show(request, actor, team, name, trial=found)


def asked(address: str, token: str, kind: str, given: str, model: str) -> Trial:
    path, body = "v1/completions", {"model": model, "prompt": given, "max_tokens": TOKENS, "temperature": 0.7}
    if kind != "completion":
        try:
            path, body = "predict", {"inputs": [json.loads(given)]}
        except (ValueError, RecursionError) as error:
            return Trial(kind, given, problem=f"The row must be JSON, such as [0.1, 0.2]: {error}.")
    began = time.monotonic()
    try:
        answer = outbound.request(
            "POST", f"{address}/{path}", resolve=gate.anywhere, content=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"}, deadline=PATIENCE,
            most_bytes=MOST_BYTES,
        )  # fmt: skip
        document = json.loads(answer.body)
    except (outbound.NoAnswer, TrainmasterError) as error:
        return Trial(kind, given, problem=f"The router did not answer: {error}.")
    except (ValueError, RecursionError):
        return Trial(kind, given, problem="The endpoint did not answer with JSON.")
    ms = round((time.monotonic() - began) * 1_000)
    if answer.status != 200:
        problem = document.get("error", answer.status) if isinstance(document, dict) else answer.status
        return Trial(kind, given, problem=str(problem)[:LONGEST], ms=ms)
    text = _text(document) if kind == "completion" else ""
    return Trial(kind, given, text, "" if text else json.dumps(document, indent=1)[:LONGEST], ms=ms)


def _text(document: Any) -> str:
    try:
        return str(document["choices"][0]["text"])[:LONGEST]
    except (KeyError, IndexError, TypeError):
        return ""
