"""Whether the file that a command starts can be there."""

import pytest

from platform_core.jobs.script import missing_script, script_of


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("train.py --steps 10", "train.py"),
        ("python train.py", "train.py"),
        ("python3.12 -u -X dev ./src/train.py --config train.yaml", "src/train.py"),
        ("bash -e run.sh", "run.sh"),
        ("./run --fast", "run"),
        ("python -m package.train", ""),
        ("python -c pass", ""),
        ("bash -c 'python train.py'", ""),
        ("torchrun --nproc-per-node 2 train.py", ""),
        ("nvidia-smi", ""),
        ("python /opt/train.py", ""),
        ("python $HOME/train.py", ""),
        ("python ../train.py", ""),
        ("", ""),
    ],
)
def test_the_script_of_a_command(command: str, script: str):
    assert script_of(command.replace("'", "").split()) == script


def test_a_script_that_the_bundle_has_is_not_missing():
    assert missing_script(("python", "./train.py"), {"train.py", "model.py"}) == ""


def test_a_missing_script_is_told_with_the_one_that_was_meant():
    told = missing_script(("python", "train.py"), {"src/train.py", "README.md"})
    assert told == "The command runs train.py, which is not in the code bundle; did you mean src/train.py?"
    assert missing_script(("trian.py",), {"train.py"}).endswith("did you mean train.py?")


def test_a_missing_script_is_told_with_what_there_is():
    told = missing_script(("run.sh",), {"a", "b", "c", "d"})
    assert told == "The command runs run.sh, which is not in the code bundle; it has a, b, c …."


def test_without_code_no_script_is_there():
    told = missing_script(("python", "train.py"), None)
    assert told == "The command runs train.py, but the job has no code: choose the bundle that has the file."
    assert missing_script(("python", "-m", "http.server"), None) == ""
