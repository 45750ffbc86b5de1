"""One connection to the REST API: requests, answers, and refusals as sentences."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

import httpx

from trainmaster.answers import UnexpectedAnswer

TIMEOUT = httpx.Timeout(30.0, connect=10.0)
UPLOAD_TIMEOUT = httpx.Timeout(600.0, connect=10.0)
PART_BYTES = 256 * 1024

Sent = Callable[[int], None]


class ClientError(Exception):
    """The message is a sentence for a person."""


class Unreachable(ClientError):
    """No answer at all."""


class ApiError(ClientError):
    """The platform refused: RFC 9457 problem documents, with `problems` as (field, sentence) where it names fields."""

    def __init__(
        self, status: int, code: str, sentence: str, problems: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__(sentence)
        self.status, self.code, self.problems = status, code, tuple(problems)


class Connection:
    """Methods raise ClientError, or UnexpectedAnswer when what answers is not the platform. Safe in threads."""

    def __init__(self, url: str, token: str, timeout: httpx.Timeout = TIMEOUT, retries: int = 2) -> None:
        self.url = url.rstrip("/")
        if not (token.isascii() and token.isprintable()):
            raise ClientError("The token has characters that no token has; copy it again from Settings.")
        try:
            # Never follows a redirect: the token would go along to wherever it leads.
            self._http = httpx.Client(
                base_url=f"{self.url}/api/v1/",
                headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
                timeout=timeout,
                transport=httpx.HTTPTransport(retries=retries),
            )
        except httpx.InvalidURL as error:
            raise Unreachable(f"{self.url} is not an address of a platform: {error}.") from error

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send_file(self, path: str, source: Path, sent: Sent = lambda count: None) -> None:
        """PUT one file to this address of the API."""
        try:
            with source.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
                self.call("PUT", path, content=_parts(file, sent), headers=headers, timeout=UPLOAD_TIMEOUT)
        except OSError as error:
            raise ClientError(f"{source} cannot be read: {error.strerror or error}.") from error

    def call(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of one answer, None for an empty one; the methods of Client are easier to use."""
        response = self._answer(method, path, **options)
        if response.status_code == httpx.codes.NO_CONTENT or not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            kind = response.headers.get("content-type", "nothing")
            sentence = f"{response.url} answered with {kind}, not JSON; is it the address of Trainmaster?"
            raise UnexpectedAnswer(sentence) from error

    def read(self, path: str) -> bytes:
        return self._answer("GET", path).content

    def _answer(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TimeoutException as error:
            raise Unreachable(f"{self.url} did not answer in time; try again.") from error
        except httpx.HTTPError as error:
            why = str(error).rstrip(".") or type(error).__name__
            raise Unreachable(f"{self.url} cannot be reached: {why}.") from error
        except httpx.InvalidURL as error:
            raise Unreachable(f"{self.url} is not an address of a platform: {error}.") from error
        if not response.is_success:
            raise _refusal(response)
        return response


def _parts(file: BinaryIO, sent: Sent) -> Iterator[bytes]:
    while part := file.read(PART_BYTES):
        yield part
        sent(len(part))


def _refusal(response: httpx.Response) -> ClientError:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or "detail" not in body:
        hint = f" and points to {response.headers['location']}" if response.has_redirect_location else ""
        return ApiError(response.status_code, "", f"{response.url} answered {response.status_code}{hint}.")
    problems = [
        (str(problem.get("field", "")), str(problem.get("sentence", "")))
        for problem in body.get("problems") or ()
        if isinstance(problem, dict)
    ]
    return ApiError(response.status_code, str(body.get("code", "")), str(body["detail"]), problems)


def results(body: Any) -> list[Any]:
    """The list of an answer: of `{"results": […]}` or of a plain list."""
    results = body.get("results") if isinstance(body, dict) else body
    if not isinstance(results, list):
        raise UnexpectedAnswer("The server's answer has no results; is it Trainmaster, and as new as this?")
    return results


def segment(text: str) -> str:
    """One segment of a path, whatever is typed."""
    return quote(text, safe="")
