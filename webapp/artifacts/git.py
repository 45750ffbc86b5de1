"""Code out of a git repository: a ref is resolved to a commit, and its files become a code bundle like any other."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import os
import re
import shlex
import signal
import subprocess
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platform_core.errors import TrainmasterError
from platform_core.units import GIB, format_bytes
from webapp.accounts.permissions import Actor
from webapp.artifacts import archives, scratch
from webapp.base import outbound, turns
from webapp.base.connections import outside

SECONDS = 120  # for the whole of a fetch
MOST_BYTES = 2 * GIB  # of any file that git writes, and of all that a fetch leaves
_TOO_MUCH = f"the commit has more than {format_bytes(MOST_BYTES)}; keep data in a dataset instead"
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_SHORT = re.compile(r"(?P<user>[\w.-]+)@(?P<host>[\w.-]+):(?P<path>.+)")  # git@host:team/project.git
_HOST = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*)|[0-9A-Fa-f:.]+"
)  # a name, or an IPv6 address without its brackets
_USER = re.compile(r"[A-Za-z0-9_](?:[\w.@+-]*)", re.ASCII)
_SHORT_COMMIT = re.compile(r"[0-9a-f]{7,39}")  # a server gives a commit by its whole name only
# What git says after ssh has said why.
_AFTERWORDS = ("fatal: Could not read from remote", "Please make sure you have", "and the repository exists")
_LONGEST_REASON = 300


class GitError(Exception):
    """The repository gives no code. The message is a sentence, without the credential."""


@dataclass(frozen=True, slots=True)
class Bundle:
    manifest: str
    commit: str  # 40 hexadecimal digits
    url: str  # without a password


@dataclass(frozen=True, slots=True)
class _Remote:
    url: str
    scheme: str
    host: str
    port: int
    address: str


def bundle(actor: Actor, team: str, url: str, ref: str, folder: str, credential: str) -> Bundle:
    """Fetches one commit, without its history. `credential` is a token, user:token, or a private SSH key; '' is none.

    Raises GitError, and TrainmasterError of what an upload raises.
    """
    if ref.startswith("-") or folder.startswith("-"):
        dashed = ref if ref.startswith("-") else folder
        raise GitError(f"{dashed} begins with a dash, which git reads as an option")
    try:
        with turns.turn("git", actor.username), outside(), scratch.place() as place:
            remote = _remote(url)
            git = _Git(place, remote, credential)
            commit = git.commit_of(ref)
            archive = git.archived(commit, folder)
            return Bundle(
                archives.upload(actor, team, _name(remote.url), archive, keep_folder=True), commit, remote.url
            )
    except scratch.Full as error:
        raise GitError(str(error)) from error


def _remote(url: str) -> _Remote:
    short = _SHORT.fullmatch(url) if "://" not in url else None
    full = f"ssh://{short['user']}@{short['host']}/{short['path'].lstrip('/')}" if short else url
    parts = urllib.parse.urlsplit(full)
    try:
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError) as error:
        raise GitError(f"{url} is no address of a repository; write https://… or ssh://…") from error
    if not parts.hostname:
        raise GitError(f"{url} names no host")
    if not _HOST.fullmatch(parts.hostname) or not _USER.fullmatch(
        urllib.parse.unquote(parts.username or "git")
    ):
        raise GitError(f"{url} names a host or user with characters that no host or user has")
    if parts.password:
        raise GitError("the address has a password, which everybody of the team would see; use a secret")
    try:
        address = outbound.resolve(parts.hostname, port)
    except TrainmasterError as error:
        raise GitError(str(error).rstrip(".")) from error
    if parts.scheme == "http" and ipaddress.ip_address(address).is_global:
        raise GitError("http:// sends the code and the credential in the clear; use https://")
    return _Remote(full, parts.scheme, parts.hostname, port, address)


class _Git:
    """Runs git in a scratch folder: no settings of this machine, no prompt, no redirect, no other protocol."""

    def __init__(self, scratch: Path, remote: _Remote, credential: str) -> None:
        self._folder, self._remote, self._secret = scratch, remote, credential
        self._ends = time.monotonic() + SECONDS
        self._environment = {
            "PATH": f"/usr/local/bin:{os.defpath}",
            "HOME": str(scratch),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": remote.scheme,
            **_as_environment(self._settings()),
        }
        if remote.scheme == "ssh":
            self._environment["GIT_SSH_COMMAND"] = self._ssh()

    def commit_of(self, ref: str) -> str:
        """Fetches it, and leaves MOST_BYTES at most: a pack and its index, as nothing is unpacked."""
        self.run("init", "--quiet", "--bare", ".")
        self.fetch(ref or "HEAD")
        if scratch.used(self._folder) > MOST_BYTES:
            raise GitError(_TOO_MUCH)
        return self.run("rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()

    def archived(self, commit: str, folder: str) -> Path:
        archive = self._folder / "code.tar"
        tree = f"{commit}:{folder.strip('/')}" if folder else commit
        self.run("archive", "--format=tar", f"--output={archive}", tree)
        return archive

    def fetch(self, ref: str) -> None:
        try:
            self.run("fetch", "--quiet", "--depth=1", "--no-tags", "--", self._remote.url, ref)
        except GitError as error:
            if _SHORT_COMMIT.fullmatch(ref):
                raise GitError(f"{error}; a commit is named by all its 40 digits") from error
            raise

    def run(self, *arguments: str) -> str:
        # The limit of the shell holds for git and its helpers; 512 bytes a block.
        limited = ["sh", "-c", 'ulimit -f "$0"; exec git "$@"', str(MOST_BYTES // 512), *arguments]
        # A group of its own: git leaves what speaks to the server, such as ssh, to children.
        with subprocess.Popen(
            limited, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                said, why = process.communicate(timeout=max(0.0, self._ends - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                late = f"{self._remote.host} did not send the commit within {SECONDS} seconds"
                raise GitError(late) from error
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode in (153, -25):  # SIGXFSZ
            raise GitError(_TOO_MUCH)
        if process.returncode != 0:
            raise GitError(self._reason(why.decode(errors="replace")))
        return said.decode(errors="replace")

    def _settings(self) -> Mapping[str, str]:
        made = {"http.followRedirects": "false", "protocol.version": "2", "core.hooksPath": "/dev/null"}
        made["fetch.unpackLimit"] = "1"  # objects in files of their own would have no sum
        remote = self._remote
        if remote.scheme != "ssh":
            made["http.curloptResolve"] = f"{remote.host}:{remote.port}:{remote.address}"
        if self._secret and remote.scheme != "ssh":
            user = self._secret if ":" in self._secret else f"oauth2:{self._secret}"
            made["http.extraHeader"] = f"Authorization: Basic {base64.b64encode(user.encode()).decode()}"
        return made

    def _ssh(self) -> str:
        """A line that git gives to a shell."""
        options = {
            "StrictHostKeyChecking": "accept-new", "HostName": self._remote.address, "BatchMode": "yes",
            "HostKeyAlias": self._remote.host, "ConnectTimeout": "20", "ServerAliveInterval": "15",
            "UserKnownHostsFile": f"{self._folder}/known_hosts", "IdentitiesOnly": "yes",
        }  # fmt: skip
        command = ["ssh", "-F", "/dev/null"]
        for name, value in options.items():
            command += ["-o", f"{name}={value}"]
        if self._secret:
            key = self._folder / "key"
            key.touch(mode=0o600)
            key.write_text(self._secret.strip() + "\n")
            command += ["-i", str(key)]
        return shlex.join(command)

    def _reason(self, text: str) -> str:
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_AFTERWORDS)]
        if any("could not read Username" in line for line in lines):
            return f"{self._remote.host} gives no code: it wants a credential; name a secret of the team in git.secret"
        telling = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))] or lines
        last = (telling[-1] if telling else "git gave no reason").partition(": ")
        reason = (last[2] or last[0]).replace(str(self._folder), "")[:_LONGEST_REASON].rstrip(".")
        for part in filter(None, self._secret.split(":")):
            reason = reason.replace(part, "…")
        return f"{self._remote.host} gives no code: {reason}"


def _as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings that no list of processes shows, unlike arguments."""
    made = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        made |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return made


def _name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2].removesuffix(".git")[:120] or "code"
