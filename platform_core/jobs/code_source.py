"""Code that is taken from a git repository when a job is submitted."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.fields import Group, described
from platform_core.jobs.kinds import line

URL = r"(https?|ssh)://[^\s'\"\\]+|[A-Za-z0-9_][\w.-]*@[\w.-]+:[^\s'\"\\]+"
REF = r"[A-Za-z0-9_][\w./+@-]*"
FOLDER = r"(?!.*\.\.)[\w][\w./ +-]*"


@dataclass(frozen=True, slots=True)
class GitSource:
    """Where the code comes from. An accepted job has the commit as its `ref`."""

    url: str = described(
        line(500, pattern=URL, words="the https:// or ssh:// address of a repository"),
        "Git repository",
        "Its files become the code of the job when it is submitted.",
        Group.CODE,
        default="",
        example="https://git.example/team/project.git",
    )
    ref: str = described(
        line(200, pattern=REF, words="a branch, a tag or a commit"),
        "Branch, tag or commit",
        "It is resolved to a commit when the job is submitted. Empty: the default branch.",
        Group.CODE,
        default="",
        example="main",
    )
    folder: str = described(
        line(300, pattern=FOLDER, words="a folder inside the repository"),
        "Folder in the repository",
        "Only this folder is taken; the command starts in it.",
        Group.CODE,
        default="",
        example="training",
    )
    secret: str = described(
        line(120, pattern=r"[A-Za-z_][A-Za-z0-9_]*", words="the name of a secret of the team"),
        "Secret for the repository",
        "A secret of the team with an access token, or a private SSH key.",
        Group.CODE,
        default="",
        example="GIT_TOKEN",
    )
