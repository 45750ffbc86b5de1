"""What is a sample is what WebDataset, JSON Lines and pyarrow take for one, and no shard is read short in silence."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainmaster.data import JsonLines, Parquet, Tar
from trainmaster.data.sources import tell_once

IN_A_FOLDER = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=80
)  # fmt: skip
NAMES = st.builds(
    lambda folder, base: folder + base,
    st.sampled_from(["", "a/", "a.b/", "./", "a/b/", "__meta__/", "__MACOSX/"]),
    st.sampled_from(
        ["1.jpg", "1.cls", "1.JPG", "2.jpg", "2.seg.png", "._1.jpg", ".DS_Store", "README", "__meta__", "__x__.a"]
    ),
)  # fmt: skip


@pytest.fixture(autouse=True)
def told_before() -> Iterator[None]:
    yield
    tell_once.cache_clear()


def packed(
    members: list[tuple[str, bytes]], form: int = tarfile.PAX_FORMAT, kind: bytes = tarfile.REGTYPE
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size, member.type = len(data), kind
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def webdataset(data: bytes) -> list[dict[str, Any]]:
    """The rules of `webdataset` 1.0: `tar_file_iterator`, `base_plus_ext` and `group_by_keys`."""
    samples: list[dict[str, Any]] = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|") as tar:
        for member in tar:
            name = member.name
            if not member.isreg() or re.match(r"__[^/]*__($|/)", name):
                continue
            if name.rpartition("/")[2].startswith(
                "."
            ):  # it takes a/._1.jpg for a part of a sample called "a/"
                continue
            match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
            if not match:
                continue
            key, extension = match[1], match[2].lower()
            if not samples or samples[-1]["__key__"] != key:
                samples.append({"__key__": key})
            if extension in samples[-1]:
                raise ValueError("two members of one name")
            samples[-1][extension] = tar.extractfile(member).read()  # type: ignore[union-attr]
    return samples


def read(path: Path) -> list[dict[str, Any]] | None:
    """None: the shard is set aside."""
    source = Tar([path])
    return None if source.unreadable else [source[index] for index in range(len(source))]


@IN_A_FOLDER
@given(st.lists(st.tuples(NAMES, st.binary(max_size=9)), max_size=8), st.sampled_from([0, 1, 2]))
def test_the_samples_of_a_tar_are_those_of_webdataset(
    tmp_path: Path, members: list[tuple[str, bytes]], form: int
) -> None:
    data = packed(members, form)
    (tmp_path / "a.tar").write_bytes(data)
    try:
        expected = webdataset(data) if members else None
    except ValueError:
        expected = None
    found = read(tmp_path / "a.tar")
    assert (found or None) == (expected or None)


@IN_A_FOLDER
@given(data=st.data())
def test_a_tar_with_another_byte_or_length_has_the_same_samples_or_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    members = [(f"{number}.{kind}", bytes([number]) * 700) for number in range(4) for kind in ("jpg", "cls")]
    whole = packed(members)
    place = data.draw(st.integers(0, len(whole) - 1), "place")
    block = place // 512 * 512
    mutated = data.draw(
        st.sampled_from(
            [whole[:place], whole[:block], whole[:block] + b"\1" * 512 + whole[block + 512 :], whole + whole]
        )
    )  # fmt: skip
    (tmp_path / "m.tar").write_bytes(mutated)
    tell_once.cache_clear()
    capsys.readouterr()
    found = read(tmp_path / "m.tar")
    if found is None:
        return
    told = capsys.readouterr().err
    assert len(found) == 4 or f"shard {tmp_path / 'm.tar'} " in told
    assert len(found) == 4 or f"{len(found):,} samples before that are read" in told
    if mutated == whole + whole:
        assert "goes on at byte" in told


def test_members_that_are_no_files_are_no_samples(tmp_path: Path) -> None:
    for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
        (tmp_path / "a.tar").write_bytes(packed([("1.jpg", b"")], kind=kind))
        assert read(tmp_path / "a.tar") == []


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_and_many_bytes_are_read_by_every_format(tmp_path: Path, form: int) -> None:
    name = "folder/" + "n" * 300 + "ä"
    (tmp_path / "a.tar").write_bytes(packed([(f"{name}.jpg", b"x" * 5_000), (f"{name}.cls", b"1")], form))
    assert read(tmp_path / "a.tar") == [{"__key__": name, "jpg": b"x" * 5_000, "cls": b"1"}]


def test_a_whole_shard_and_one_without_end_blocks_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = packed([("1.jpg", b"x")])
    (tmp_path / "a.tar").write_bytes(whole)
    (tmp_path / "b.tar").write_bytes(whole.rstrip(b"\0") + bytes(511))
    assert read(tmp_path / "a.tar") == read(tmp_path / "b.tar") == [{"__key__": "1", "jpg": b"x"}]
    assert [line for line in capsys.readouterr().err.splitlines() if "a.tar" in line] == []


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b\x08 packed", b"PK\x03\x04 zip", b"a,b\n1,2\n" * 100])
def test_what_is_no_tar_is_set_aside(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.tar").write_bytes(data)
    assert read(tmp_path / "a.tar") is None


LINES = st.lists(
    st.tuples(
        st.sampled_from(['{"a": 1}', "[2]", '"ä"', " 3", "4 ", "", " ", "\t", "\r", " \r"]),
        st.sampled_from(["\n", "\r\n", "\n\n", "\n\r\n"]),
    ),
    max_size=8,
)


@IN_A_FOLDER
@given(LINES, st.booleans(), st.booleans())
def test_the_samples_of_json_lines_are_the_values_of_the_file(
    tmp_path: Path, lines: list[tuple[str, str]], mark: bool, ended: bool
) -> None:
    text = "".join(line + end for line, end in lines)
    text = text if ended else text.rstrip("\n")
    path = tmp_path / "a.jsonl"
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.encode())
    source = JsonLines(path)
    expected = [json.loads(line) for line in text.split("\n") if line.strip()]
    assert [json.loads(source[index]) for index in range(len(source))] == expected
    assert source.unreadable == []


def test_lines_that_end_in_cr_alone_are_refused_and_not_one_sample(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\r{"a": 2}\r')
    [line] = list(JsonLines(tmp_path / "a.jsonl"))
    with pytest.raises(ValueError, match="Extra data"):
        json.loads(line)


def test_rows_are_those_of_the_row_groups_and_not_of_the_footer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"a": list(range(6))}), tmp_path / "a.parquet", row_group_size=4)

    class Wrong:
        """As writers that were killed or are wrong leave it: no rows in the footer."""

        num_rows, num_row_groups = 0, 2

        def __init__(self, path: str) -> None:
            self.row_group = metadata(path).row_group

    metadata = parquet.read_metadata
    monkeypatch.setattr(parquet, "read_metadata", Wrong)
    source = Parquet(tmp_path / "a.parquet")
    assert [source[index] for index in range(len(source))] == [{"a": number} for number in range(6)]
    assert "says that it has 0 rows, and its row groups have 6" in capsys.readouterr().err
