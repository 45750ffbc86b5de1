"""What plain JSON and the completions protocol say about rows."""

from __future__ import annotations

from typing import Any

from trainmaster.serving.http import HttpError

MOST_TOKENS = 4_096


def plain_rows(document: dict[str, Any]) -> list[Any]:
    rows = document.get("inputs")
    if not isinstance(rows, list) or not rows:
        raise HttpError(400, 'the body must be {"inputs": [row, …]} with at least one row')
    return rows


def completion(document: dict[str, Any]) -> dict[str, Any]:
    """The row of a request of the completions protocol, its values checked."""
    prompt = document.get("prompt", "")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise HttpError(400, "the prompt must be one text")
    tokens = document.get("max_tokens")
    tokens = 16 if tokens is None else tokens
    if type(tokens) is not int or not 1 <= tokens <= MOST_TOKENS:
        raise HttpError(400, f"max_tokens is {tokens!r}; 1 to {MOST_TOKENS} are possible")
    temperature = document.get("temperature")
    temperature = 1.0 if temperature is None else temperature
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        raise HttpError(400, f"the temperature is {temperature!r}; 0 to 2 are possible")
    stop = document.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or not all(isinstance(text, str) and text for text in stop):
        raise HttpError(400, "stop must be a text or a list of texts")
    return {
        "prompt": prompt, "max_tokens": tokens, "temperature": float(temperature), "stop": stop,
        "seed": document.get("seed"),
    }  # fmt: skip
