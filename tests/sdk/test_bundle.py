import os
import subprocess
from pathlib import Path

import pytest

from trainmaster import bundle


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=Alice", "-c", "user.email=alice@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def names(files: list[tuple[str, Path]]) -> list[str]:
    return [name for name, _ in files]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    fill(tmp_path, "project/train.py", "project/pack/a.py", "other.py")
    (tmp_path / ".gitignore").write_text("data/\n*.log\n")
    git(tmp_path, "init", "-q", "-b", "trunk")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_what_git_ignores_stays_at_home(repository: Path) -> None:
    fill(repository, "project/data/big.bin", "project/run.log", "project/new.py", "project/__pycache__/x.pyc")
    assert names(bundle.code_files(repository / "project")) == ["new.py", "pack/a.py", "train.py"]


def test_a_file_with_a_conflict_goes_along_once(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "side")
    for branch in ("side", "trunk"):
        git(repository, "checkout", "-q", branch)
        (repository / "other.py").write_text(branch)
        git(repository, "commit", "-q", "-a", "-m", branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", "side")
    assert names(bundle.code_files(repository)).count("other.py") == 1


def test_a_file_that_was_deleted_but_not_committed_is_no_surprise(repository: Path) -> None:
    (repository / "project" / "train.py").unlink()
    assert names(bundle.code_files(repository / "project")) == ["pack/a.py"]


def test_a_link_out_of_the_folder_is_not_followed(repository: Path) -> None:
    (repository / "project" / "passwords").symlink_to("/etc/passwd")
    assert "passwords" not in names(bundle.code_files(repository / "project"))


def test_without_git_everything_but_leftovers_goes(tmp_path: Path) -> None:
    fill(
        tmp_path,
        "train.py",
        "deep/a.txt",
        ".venv/lib/x.py",
        "__pycache__/t.pyc",
        "trainmaster-runs/train-1/run.json",
    )
    assert names(bundle.code_files(tmp_path)) == ["deep/a.txt", "train.py"]


def test_a_dataset_is_the_whole_folder(repository: Path) -> None:
    fill(repository, "project/data/a.bin")
    assert "data/a.bin" in names(bundle.data_files(repository / "project"))


def test_the_lineage_names_the_commit_and_what_is_not_committed(repository: Path) -> None:
    (repository / "project" / "train.py").write_text("lr = 1\n")
    (repository / "other.py").write_text("not part of the job\n")
    told = bundle.lineage(repository / "project")
    assert told["git_commit"] == git(repository, "rev-parse", "HEAD")
    assert told["git_branch"] == "trunk"
    assert "+lr = 1" in told["git_diff"]
    assert "not part of the job" not in told["git_diff"]
    assert told["submitted_from"].endswith(f":{repository / 'project'}")


def test_a_huge_diff_is_cut_and_says_so(repository: Path) -> None:
    (repository / "project" / "train.py").write_text("x\n" * bundle.DIFF_LIMIT)
    diff = bundle.lineage(repository / "project")["git_diff"]
    assert len(diff) < bundle.DIFF_LIMIT + 100
    assert "cut here" in diff


def test_without_git_the_lineage_tells_who_and_where(tmp_path: Path) -> None:
    assert set(bundle.lineage(tmp_path)) == {"submitted_from"}


@pytest.mark.parametrize("has_git", [True, False], ids=["git", "no git"])
def test_code_that_cannot_be_sent_is_named_and_the_rest_is_sent(tmp_path: Path, has_git: bool) -> None:
    folder, elsewhere = tmp_path / "code", tmp_path / "data"
    fill(folder, "train.py", "pack/a.py", "a\\b.py", "a\nb.py", "c:d.py", "old.pyc", "venv/x.py")
    fill(elsewhere, "1.bin")
    (folder / os.fsdecode(b"caf\xe9.py")).write_text("latin")
    (folder / "linked").symlink_to(elsewhere)
    (folder / "inner").symlink_to("pack")
    (folder / "gone.py").symlink_to("nowhere.py")
    if has_git:
        git(folder, "init", "-q")
        fill(folder, "data/huge.bin")
        (folder / ".gitignore").write_text("data/\n")
    files = bundle.code_files(folder)
    assert set(names(files)) - {".gitignore"} == {"train.py", "pack/a.py"}
    left = bundle.code_left_out(folder, files)
    assert left == sorted(
        ["a\\b.py", "a\nb.py", "c:d.py", os.fsdecode(b"caf\xe9.py"), "gone.py", "inner", "linked"]
    )
    assert "caf\\xe9.py" in [bundle.shown(name) for name in left]
    assert "'a\\nb.py'" in [bundle.shown(name) for name in left]


def test_a_deleted_file_and_a_submodule_of_git(repository: Path, tmp_path: Path) -> None:
    """The one is nothing to send, the other is named."""
    fill(repository, "library/x.py")
    git(repository / "library", "init", "-q")
    git(repository / "library", "add", ".")
    git(repository / "library", "commit", "-q", "-m", "first")
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "library")
    (repository / "other.py").unlink()
    assert bundle.code_left_out(repository, bundle.code_files(repository)) == ["library"]


def test_what_is_not_sent_of_a_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    fill(folder, "a.txt", "b/c.txt", ".git/config", "old.pyc")
    (folder / "same.txt").symlink_to("a.txt")
    (folder / "passwords").symlink_to("/etc/passwd")
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "broken").symlink_to("/nowhere")
    fill(folder, "new\nline", "d/back\\slash", "d/e:f")
    (folder / os.fsdecode(b"caf\xe9")).write_text("latin")
    files = bundle.data_files(folder)
    assert names(files) == ["a.txt", "b/c.txt", "same.txt"]
    odd = ["d/back\\slash", "d/e:f", "new\nline", os.fsdecode(b"caf\xe9")]
    usual = [".git", "broken", "elsewhere", "old.pyc", "passwords"]
    assert bundle.left_out(folder, files) == sorted([*odd, *usual])


def test_programs_are_what_their_owner_may_run(tmp_path: Path) -> None:
    for name, mode in {"run.sh": 0o755, "mine": 0o700, "train.py": 0o644, "group": 0o674}.items():
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(mode)
    assert bundle.executables(bundle.code_files(tmp_path)) == ["mine", "run.sh"]
