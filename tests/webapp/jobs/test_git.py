"""Jobs whose code comes from a git repository, served by a real git."""

import os
import random
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.db import transaction
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from platform_core.jobs.spec import SpecError, given
from tests.support.git_server import Repository, serve
from tests.webapp.jobs.conftest import SPEC
from webapp.accounts import services as accounts
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import git, scratch
from webapp.artifacts import queries as artifacts
from webapp.artifacts.models import Manifest
from webapp.base import turns
from webapp.base.connections import outside
from webapp.jobs import services
from webapp.jobs.models import Job

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]
Browser = Callable[[User], Client]
TOKEN = "glpat-c4nn0t-be-guessed"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.commit({"train.py": "print(1)", "lib/data.py": "", "tools/eval/run.py": "print(2)"})
    return made


@pytest.fixture(autouse=True)
def _own_network(settings: Settings) -> None:
    settings.OUTBOUND_HOSTS = ["127.0.0.0/8"]


@pytest.fixture
def address(repository: Repository) -> Iterator[str]:
    with serve(repository.bare.parent) as url:
        yield f"{url}/project.git"


@pytest.fixture
def guarded(repository: Repository) -> Iterator[str]:
    with serve(repository.bare.parent, TOKEN) as url:
        yield f"{url}/project.git"


def refused(submit: Submit, **git: Any) -> str:
    with pytest.raises(SpecError) as refusal:
        submit(git=git)
    [problem] = refusal.value.problems
    return f"{problem.field}: {problem.sentence}"


def test_the_programs_of_a_commit_stay_programs(submit: Submit, repository: Repository, address: str) -> None:
    (repository.work / "run.sh").write_text("#!/bin/sh\n")
    (repository.work / "run.sh").chmod(0o755)
    repository.keep("Add a program")
    job = submit(git={"url": address, "ref": "main"})
    files = Manifest.objects.get(id=job.spec["code"]).document["files"]
    assert [file["path"] for file in files if file.get("executable")] == ["run.sh"]


def test_a_branch_becomes_the_bundle_of_its_commit(
    submit: Submit, repository: Repository, address: str
) -> None:
    head = repository.commit({"train.py": "print(3)"})
    job = submit(git={"url": address, "ref": "main"})
    assert artifacts.paths(job.spec["code"]) == {"train.py", "lib/data.py", "tools/eval/run.py"}
    assert (job.spec["git"]["ref"], job.lineage["git_commit"]) == (head, head)
    assert (job.lineage["git_branch"], job.lineage["git_remote"]) == ("main", address)


def test_without_a_ref_it_is_the_default_branch(submit: Submit, repository: Repository, address: str) -> None:
    assert submit(git={"url": address}).lineage["git_branch"] == "HEAD"


def test_an_older_commit_can_be_named(submit: Submit, repository: Repository, address: str) -> None:
    older = repository.commit({"train.py": "old"})
    repository.commit({"train.py": "new", "more.py": ""})
    job = submit(git={"url": address, "ref": older})
    assert (job.lineage["git_commit"], "more.py" in artifacts.paths(job.spec["code"])) == (older, False)
    assert "git_branch" not in job.lineage


@pytest.mark.parametrize("annotated", [False, True])
def test_a_tag_becomes_the_bundle_of_its_commit(
    submit: Submit, repository: Repository, address: str, annotated: bool
) -> None:
    released = repository.commit({"train.py": "released"})
    repository.tag("v1", annotated=annotated)
    repository.commit({"train.py": "new", "more.py": ""})
    job = submit(git={"url": address, "ref": "v1"})
    assert (job.lineage["git_commit"], job.lineage["git_branch"]) == (released, "v1")
    assert "more.py" not in artifacts.paths(job.spec["code"])


def test_a_short_commit_is_refused_with_what_to_write(
    submit: Submit, repository: Repository, address: str
) -> None:
    head = repository.commit({"train.py": "print(3)"})
    sentence = refused(submit, url=address, ref=head[:8])
    assert sentence.endswith("a commit is named by all its 40 digits.")


def test_only_a_folder_is_taken(submit: Submit, address: str) -> None:
    job = submit(command="run.py", git={"url": address, "folder": "tools/eval"})
    assert artifacts.paths(job.spec["code"]) == {"run.py"}


def test_the_job_file_of_such_a_job_says_the_commit_and_gives_the_same_code(
    submit: Submit, repository: Repository, address: str, owner: User
) -> None:
    first = submit(git={"url": address, "ref": "main"})
    repository.commit({"train.py": "moved on"})
    again, _ = services.submit(actor_of(owner), given(first.spec))
    assert again.spec["code"] == first.spec["code"]


def test_a_key_gives_the_same_job_after_the_branch_has_moved(
    repository: Repository, address: str, owner: User, submit: Submit
) -> None:
    body = {**given(submit().spec), "git": {"url": address, "ref": "main"}}
    first, _ = services.submit(actor_of(owner), body, idempotency_key="k")
    repository.commit({"train.py": "moved on"})
    again, new = services.submit(actor_of(owner), body, idempotency_key="k")
    assert (again.id, new) == (first.id, False)


def test_links_of_a_repository_are_not_followed(submit: Submit, repository: Repository, address: str) -> None:
    (repository.work / "secrets").symlink_to("/etc/passwd")
    repository.keep("Add a link")
    assert "secrets" not in artifacts.paths(submit(git={"url": address}).spec["code"])


def test_a_guarded_repository_opens_with_a_secret_of_the_team(
    submit: Submit, guarded: str, lead: User
) -> None:
    accounts.set_secret(actor_of(lead), "vision", "GIT_TOKEN", TOKEN)
    assert submit(git={"url": guarded, "secret": "GIT_TOKEN"}).lineage["git_commit"]


def test_a_guarded_repository_without_a_secret_says_what_it_wants(submit: Submit, guarded: str) -> None:
    assert "name a secret of the team in git.secret" in refused(submit, url=guarded)


def test_a_wrong_token_is_refused_and_not_repeated(submit: Submit, guarded: str, lead: User) -> None:
    accounts.set_secret(actor_of(lead), "vision", "GIT_TOKEN", "wrong-token")
    sentence = refused(submit, url=guarded, secret="GIT_TOKEN")
    assert sentence.startswith("git.url: 127.0.0.1 gives no code: ")
    assert "wrong-token" not in sentence


SSH = """#!/bin/sh
# As much of ssh as git needs: takes the key, and runs what git asks of the host.
while [ "$1" != git@127.0.0.1 ]; do
    [ "$1" = -i ] && key="$2"
    shift
done
[ "$(cat "$key")" = "PRIVATE KEY" ] || { echo "git@127.0.0.1: Permission denied (publickey)." >&2; exit 255; }
exec sh -c "$2"
"""


@pytest.mark.parametrize(("key", "opens"), [("PRIVATE KEY\n", True), ("ANOTHER KEY", False)])
def test_a_private_key_of_the_team_opens_a_repository_over_ssh(
    submit: Submit, repository: Repository, lead: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    key: str, opens: bool,
) -> None:  # fmt: skip
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setattr(os, "defpath", f"{ssh.parent}:{os.environ['PATH']}")
    accounts.set_secret(actor_of(lead), "vision", "DEPLOY_KEY", key)
    source = {"url": f"git@127.0.0.1:{repository.bare}", "secret": "DEPLOY_KEY"}
    if opens:
        assert submit(git=source).lineage["git_commit"]
    else:
        assert "publickey" in refused(submit, **source)


def test_a_secret_that_the_team_lacks_is_named(submit: Submit, guarded: str) -> None:
    assert refused(submit, url=guarded, secret="NONE") == (
        "git.secret: The team has no secret NONE; a lead can add it on the team's page."
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"ref": "no-such-branch"}, "couldn't find remote ref no-such-branch"),
        ({"folder": "no/such/folder"}, "gives no code"),
    ],
)
def test_what_the_repository_lacks_is_refused_at_the_field(
    change: dict[str, str], sentence: str, submit: Submit, address: str
) -> None:
    assert sentence in refused(submit, url=address, **change)


@pytest.mark.parametrize("url", ["http://localhost/x.git", "https://127.0.0.1/x.git", "git@[::1]:x.git"])
def test_the_platforms_own_network_is_closed(url: str, submit: Submit, settings: Settings) -> None:
    settings.OUTBOUND_HOSTS = []
    assert refused(submit, url=url).startswith("git.url: ")


@pytest.mark.parametrize(
    "url", ["file:///etc", "/etc", "ext::sh -c id", "--upload-pack=id", "git://host/x", "https://a b/c"]
)
def test_other_protocols_do_not_exist(url: str, submit: Submit) -> None:
    assert "Git repository" in refused(submit, url=url) or "git.url" in refused(submit, url=url)


def test_code_and_repository_together_are_refused(submit: Submit, address: str) -> None:
    code = submit(git={"url": address}).spec["code"]
    with pytest.raises(SpecError, match="keep one of the two"):
        submit(code=code, git={"url": address})


def test_fetches_share_a_few_places_that_each_begin_empty(
    submit: Submit, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "PLACES", 1)
    monkeypatch.setattr(scratch, "WAIT_SECONDS", 0.0)
    with scratch.place() as taken:
        (taken / "pack").write_bytes(b"left by a process that was killed")
        assert refused(submit, url=address) == (
            "git.url: all 1 places of this server for fetching code are taken; try again shortly."
        )
        (tmp_path / taken.parent.name / "kept").mkdir()
    taken.mkdir()
    (taken / "left").write_text("by a process that was killed")
    submit(git={"url": address})
    assert not taken.exists()


def test_all_that_a_fetch_leaves_has_one_limit(
    submit: Submit, repository: Repository, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({f"{number}.bin": random.Random(number).randbytes(6000).hex() for number in range(3)})
    monkeypatch.setattr(git, "MOST_BYTES", 40_000)
    assert "keep data in a dataset instead" in refused(submit, url=address)


def test_the_form_takes_a_repository(browser: Browser, owner: User, address: str) -> None:
    form = {"name": "from-git", "team": "vision", "command": "train.py", "gpu_type": "cpu", "num_gpus": "1"}
    answer = browser(owner).post("/jobs/submit/", {**form, "git_url": address, "git_ref": "main"})
    assert answer.status_code == 302, answer.content.decode()[:2000]
    assert Job.objects.get(name="from-git").lineage["git_branch"] == "main"


@pytest.mark.parametrize(
    "url",
    [
        "ssh://git@host;touch${IFS}here/x.git", "ssh://git@$(id)/x.git", "ssh://git@host`id`/x.git",
        "ssh://git@-oProxyCommand=id/x.git", "ssh://-oProxyCommand=id@127.0.0.1/x.git", "ssh://a%20b@127.0.0.1/x.git",
        "ssh://git@127.0.0.1 -oProxyCommand=id/x.git", "https://a'b/x.git", "ssh://git@127.0.0.1:22x/x.git",
    ],
)  # fmt: skip
def test_an_address_is_no_command(url: str, submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "webapp.artifacts.git.outbound.resolve", lambda host, port: pytest.fail(f"it asked for {host}")
    )
    assert refused(submit, url=url).startswith("git.url: ")


@pytest.mark.parametrize("field", ["ref", "folder"])
def test_no_word_of_a_job_is_an_option_of_git(submit: Submit, address: str, field: str) -> None:
    assert refused(submit, url=address, **{field: "--output=here"}).startswith("git.")


def test_what_git_gives_to_a_shell_is_quoted(tmp_path: Path) -> None:
    remote = git._Remote("ssh://h/x", "ssh", "h; touch here", 22, "192.0.2.1")
    words = shlex.split(git._Git(tmp_path / "a b; id", remote, "")._environment["GIT_SSH_COMMAND"])
    assert "HostKeyAlias=h; touch here" in words
    assert f"UserKnownHostsFile={tmp_path}/a b; id/known_hosts" in words


def test_a_silent_host_leaves_no_process_behind(
    submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh, pids = tmp_path / "bin" / "ssh", tmp_path / "pids"
    ssh.parent.mkdir()
    ssh.write_text(f"#!/bin/sh\nsleep 600 &\necho $$ $! > {pids}\nwait\n")
    ssh.chmod(0o755)
    monkeypatch.setattr(os, "defpath", f"{ssh.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(git, "SECONDS", 5)
    assert "did not send the commit" in refused(submit, url="git@127.0.0.1:x/y.git")
    left = [psutil.Process(int(pid)) for pid in pids.read_text().split() if psutil.pid_exists(int(pid))]
    _, alive = psutil.wait_procs(left, timeout=30)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def test_a_person_fetches_two_at_once_and_others_are_not_refused(
    api: Callable[..., APIClient], owner: User, member: User, address: str
) -> None:
    body = {**SPEC, "git": {"url": address}}
    with turns.turn("git", owner.username), turns.turn("git", owner.username):
        answer = api(owner).post("/api/v1/training-jobs", body, format="json")
        assert (answer.status_code, answer.headers.get("Retry-After")) == (429, "15"), answer.content
        assert "2 git fetches" in answer.json()["detail"]
        assert api(member).post("/api/v1/training-jobs", body, format="json").status_code == 201
    assert api(owner).post("/api/v1/training-jobs", body, format="json").status_code == 201


def test_no_transaction_waits_for_a_repository() -> None:
    with pytest.raises(RuntimeError), transaction.atomic(), outside():
        pass
