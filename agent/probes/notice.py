"""Word from the cloud that this machine is about to be taken away."""

from __future__ import annotations

import logging
import urllib.error
import urllib.request
from collections.abc import Mapping

from agent.probes.clouds import ADDRESS, CLOUDS, TOKEN_SECONDS, Cloud, Source, is_word

log = logging.getLogger(__name__)
TIMEOUT_SECONDS = 2
LONGEST_ANSWER = 1 << 16
NO_NOTICE = 404


class Notice:
    """Asks one cloud, or one address that the operator names. Not for several threads at once."""

    def __init__(self, cloud: str = "", url: str = "", address: str = ADDRESS) -> None:
        """`url`: of a metadata service that wants no header, or file:///… that a script of the operator writes."""
        self._cloud: Cloud | None = CLOUDS[cloud] if cloud else None
        self._address = address if cloud else url
        self._sources = self._cloud.sources if self._cloud is not None else (Source("", is_word),)
        self._token, self._name = "", ""
        self._troubles: dict[str, str] = {}

    def is_given(self) -> bool:
        """Blocks for seconds at most. What keeps it from knowing is logged once, and again when it is another."""
        return any(self._says_so(source) for source in self._sources)

    def _says_so(self, source: Source) -> bool:
        try:
            text = self._ask(source)
            said = text is not None and source.says_so(text, self._machine())
        except FileNotFoundError:
            return False
        except (OSError, ValueError, AttributeError, TypeError) as error:
            self._note(source, _cause(error))
            return False
        self._note(source, "")
        return said

    def _ask(self, source: Source) -> str | None:
        """The answer; None where there is none. A token that has expired is got anew once."""
        try:
            return self._read(source)
        except urllib.error.HTTPError as error:
            if error.code == NO_NOTICE:
                return None
            if error.code != 401 or self._cloud is None or not self._cloud.token_path:
                raise
        self._token = ""
        try:
            return self._read(source)
        except urllib.error.HTTPError as error:
            if error.code == NO_NOTICE:
                return None
            raise

    def _read(self, source: Source) -> str:
        return _fetch(self._address + source.path, headers=self._headers())

    def _machine(self) -> str:
        if self._cloud is not None and self._cloud.name_path and not self._name:
            self._name = _fetch(self._address + self._cloud.name_path, headers=self._headers()).strip()
        return self._name

    def _headers(self) -> dict[str, str]:
        cloud = self._cloud
        if cloud is None:
            return {}
        if not cloud.token_path:
            return dict(cloud.headers)
        if not self._token:
            lasts = {cloud.ttl_header: str(TOKEN_SECONDS)}
            self._token = _fetch(self._address + cloud.token_path, "PUT", lasts).strip()
        return {**cloud.headers, cloud.token_header: self._token}

    def _note(self, source: Source, trouble: str) -> None:
        if trouble and trouble != self._troubles.get(source.path):
            log.warning(
                "%s%s does not say whether this machine is taken away: %s",
                self._address,
                source.path,
                trouble,
            )
        self._troubles[source.path] = trouble


def _fetch(url: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> str:
    # A metadata service is reached without a proxy, which would answer for another machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, method=method, headers=dict(headers or {}))  # noqa: S310 - the operator's own
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return str(answer.read(LONGEST_ANSWER).decode(errors="replace"))
    except urllib.error.URLError as error:
        if isinstance(error.reason, FileNotFoundError):  # a file that is not there yet
            raise error.reason from error
        raise


def _cause(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        why = {401: ", it wants a token", 403: ", it refuses this machine"}.get(error.code, "")
        return f"it answers {error.code}{why}"
    return str(getattr(error, "reason", error)) or type(error).__name__
