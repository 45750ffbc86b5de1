"""The system users that jobs run as where the operator wants one a team. The operator makes them; the agent is root."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from agent.work_folder import WorkFolder

PREFIX = "tm-"  # of the users: team vision runs as tm-vision


class AccountError(Exception):
    """This node cannot run jobs of this team; the message is a sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: Path

    def environment(self, folder: WorkFolder) -> dict[str, str]:
        home = self.home if self.home.is_dir() else folder.work
        return {"HOME": str(home), "USER": self.name, "LOGNAME": self.name}


def account_of(team: str) -> Account:
    name = f"{PREFIX}{team}"
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise AccountError(
            f'This node runs each team\'s jobs as a system user of its own and has no user "{name}". Its operator'
            f" makes it with: useradd --system --user-group --no-create-home {name}"
        ) from None
    if entry.pw_uid == 0 or entry.pw_gid == 0:
        raise AccountError(
            f'The user "{name}" of this node is root or in its group; jobs do not run as root.'
        )
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    return Account(name, entry.pw_uid, entry.pw_gid, groups, Path(entry.pw_dir))


def give(folder: WorkFolder, account: Account) -> None:
    """Before anything of the job runs: afterwards the folder may hold links to anywhere."""
    for root in (folder.path, folder.tmp):
        for parent, _, files in os.walk(root):
            own = (os.path.join(parent, name) for name in files)
            for path in (parent, *(path for path in own if not _is_shared(path))):
                os.chown(path, account.uid, account.gid, follow_symlinks=False)
        os.chmod(root, 0o700)


def share(folder: Path, account: Account) -> None:
    """The team's user may read what the agent puts there, and other teams' may not."""
    os.chown(folder, -1, account.gid)
    os.chmod(folder, 0o750)  # noqa: S103 - the group is the team's own


def _is_shared(path: str) -> bool:
    """A file of a dataset has links in the cache and in other attempts: everybody reads it, and nobody owns it."""
    return os.lstat(path).st_nlink > 1
