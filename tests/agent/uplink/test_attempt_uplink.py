"""One attempt's uplink over real files: nothing lost, nothing twice, bounded on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent import artifacts
from agent.job_files import JobPath
from agent.uplink import attempt as attempt_module
from agent.uplink.batch import Ack
from agent.uplink.cursors import Source
from agent.uplink.mask import Mask
from agent.uplink.tail import PIECE_BYTES
from agent.uplink.uploads import Uploaded
from platform_core.distribution.content.manifest import from_json
from tests.agent.uplink.bench import Bench
from trainmaster.store.copying import fetch


def test_whole_lines_go_up_as_they_come_and_the_rest_at_the_end(bench: Bench) -> None:
    bench.log("one\ntwo\nthr")
    bench.exchange()
    assert bench.server.text(Source.LOG, 0) == "one\ntwo\n"
    bench.log("ee\nlast without end")
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == "one\ntwo\nthree\nlast without end"


def test_a_prompt_without_an_end_goes_up_once_it_stands_still(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_module, "IDLE_SECONDS", 0)
    bench.log("Continue? ")
    for _ in range(3):
        bench.exchange()
    assert bench.server.text(Source.LOG, 0) == "Continue? "


def test_a_batch_is_not_sent_twice_while_it_is_under_way(bench: Bench) -> None:
    bench.log("one\n")
    assert len(bench.step()) == 1
    bench.log("two\n")
    assert bench.step() == []


def test_what_was_not_acknowledged_comes_again_exactly_as_before(bench: Bench) -> None:
    bench.log("one\n")
    (lost,) = bench.step()
    bench.server.take(lost)  # kept, but the acknowledgement never arrives
    bench.log("two\n")
    bench.new_agent()
    (again,) = bench.step()
    assert (again.offset, again.next_offset, again.data) == (lost.offset, lost.next_offset, lost.data)
    bench.uplink.acknowledge(bench.server.take(again))
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == "one\ntwo\n"


def test_a_new_agent_goes_on_where_the_server_stands(bench: Bench) -> None:
    for number in range(20):
        bench.log(f"line {number}\n")
        bench.metrics(number)
        bench.exchange()
        if number % 3 == 0:
            bench.new_agent()
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == "".join(f"line {number}\n" for number in range(20))
    assert bench.steps() == list(range(20))


def test_a_long_log_goes_up_in_pieces(bench: Bench) -> None:
    bench.log("".join(f"line {number}\n" for number in range(100_000)))
    bench.drain()
    kept = bench.server.kept[Source.LOG, 0].values()
    assert len(kept) > 3
    assert max(len(batch.data) for batch in kept) <= PIECE_BYTES
    assert bench.server.text(Source.LOG, 0).splitlines()[-1] == "line 99999"


def test_a_line_longer_than_a_piece_is_cut_but_its_secret_is_not(bench: Bench) -> None:
    secret = "TOPSECRETVALUE"
    bench.new_agent(Mask((("KEY", secret),)))
    text = "x" * (PIECE_BYTES - 5) + secret + "y" * PIECE_BYTES
    bench.log(text)
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == text.replace(secret, "•••KEY•••")


def test_the_launchers_own_log_has_a_rank_of_its_own(bench: Bench) -> None:
    bench.folder.launcher_log.write_text("torchrun says\n")
    bench.drain()
    assert bench.notes() == "torchrun says\n"


def test_a_refused_batch_is_dropped_and_the_next_goes_up(bench: Bench) -> None:
    bench.log("bad\n")
    (batch,) = bench.step()
    bench.uplink.acknowledge(Ack(batch.attempt_id, 0, Source.LOG, 0, error="unknown attempt"))
    bench.log("good\n")
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == "good\n"


def test_with_the_server_away_the_middle_of_a_huge_log_is_given_up_with_a_word(bench: Bench) -> None:
    bench.log_cap_bytes = 4 << 20
    bench.new_agent()
    line = "x" * 99 + "\n"
    for part in range(8):
        bench.log(f"part {part}\n" + line * 20_000)
        bench.step()
        bench.uplink.send_again()
    log = bench.folder.rank_log(0)
    assert log.stat().st_size > 15 << 20
    assert log.stat().st_blocks * 512 < 8 << 20
    bench.drain()
    text = bench.server.text(Source.LOG, 0)
    assert text.startswith("part 0\n")
    assert text.endswith("x\n")
    assert "part 7\n" in text
    assert "bytes of this log were dropped here: the server was away" in text
    assert "\0" not in text
    dropped = [each for each in text.splitlines() if each.startswith("[trainmaster]")]
    assert len(dropped) == 1
    number = int(dropped[0].split()[1].replace(",", ""))
    assert number + len(text) - len(dropped[0]) - 1 == log.stat().st_size


def test_acknowledged_parts_of_a_huge_log_leave_the_disk(bench: Bench) -> None:
    bench.log_cap_bytes = 2 << 20
    bench.new_agent()
    for _ in range(8):
        bench.log(("x" * 99 + "\n") * 10_000)
        for _ in range(6):
            bench.exchange()
    assert bench.folder.rank_log(0).stat().st_blocks * 512 < 4 << 20
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == ("x" * 99 + "\n") * 80_000


def test_nothing_goes_up_before_the_secrets_are_known(bench: Bench) -> None:
    bench.new_agent(mask=None)
    bench.log("hf_abc123\n")
    assert bench.step() == []
    bench.uplink.know_secrets(Mask((("HF", "hf_abc123"),)))
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == "•••HF•••\n"


def test_a_log_whose_secrets_are_lost_for_ever_is_withheld(bench: Bench) -> None:
    bench.new_agent(mask=None)
    bench.log("hf_abc123\n")
    bench.drain()
    assert "10 bytes were withheld here" in bench.server.text(Source.LOG, 0)
    assert "hf_abc" not in bench.server.text(Source.LOG, 0)


def test_a_checkpoint_is_in_the_store_before_the_attempt_is_drained(bench: Bench, tmp_path: Path) -> None:
    bench.checkpoint(50)
    bench.drain()
    (batch,) = bench.server.checkpoints()
    told = batch.checkpoint
    assert told is not None
    assert (told.step, told.saved_at_ms, json.loads(told.metrics_json)) == (50, 7, {"loss": 0.5})
    manifest = from_json(told.manifest_json)
    assert (manifest.id, manifest.kind) == (told.manifest_id, "checkpoint")
    fetch(manifest, told.source_url, tmp_path / "fetched")
    assert (tmp_path / "fetched" / "model.bin").read_bytes() == b"weights of 50"


def test_checkpoints_are_told_once_and_in_order_whatever_the_agent_suffers(bench: Bench) -> None:
    for step in (10, 20, 30):
        bench.checkpoint(step)
        bench.step()
        bench.settle_uploads()
        batches = bench.step()
        for batch in batches:
            bench.server.take(batch)
        bench.new_agent()
    bench.drain()
    assert [b.checkpoint.step for b in bench.server.checkpoints() if b.checkpoint] == [10, 20, 30]


def test_of_many_checkpoints_that_later_saves_replaced_the_log_has_a_few(bench: Bench) -> None:
    for step in range(1, 31):
        bench.event(kind="checkpoint", step=step, path=f"checkpoints/step-{step:08}", metrics={})
    bench.checkpoint(31)
    bench.drain()
    told = [line for line in bench.notes().splitlines() if "was not uploaded" in line]
    assert ["step 1 was" in told[0], "step 10 was" in told[1], len(told)] == [True, True, 2]
    assert told[1].endswith("This is number 10: its saves come faster than uploads.")
    assert [batch.checkpoint.step for batch in bench.server.checkpoints() if batch.checkpoint] == [31]


def test_uploaded_checkpoints_beyond_the_newest_few_leave_the_node(bench: Bench) -> None:
    paths = [bench.checkpoint(step) for step in (10, 20, 30, 40)]
    bench.drain()
    assert [path.exists() for path in paths] == [False, False, True, True]


def test_a_store_that_is_away_for_a_while_only_delays(bench: Bench) -> None:
    calls = []

    def flaky(place: JobPath, kind: str, url: str) -> Uploaded:
        calls.append(place)
        if len(calls) < 3:
            raise OSError("connection refused")
        return artifacts.upload(place, kind, url)

    bench.uploader = flaky
    bench.checkpoint(10)
    bench.drain()
    assert len(bench.server.checkpoints()) == 1
    assert "could not be uploaded: connection refused" in bench.notes()


def test_a_store_that_stays_away_does_not_hold_an_ended_attempt_for_ever(bench: Bench) -> None:
    def away(place: JobPath, kind: str, url: str) -> Uploaded:
        raise OSError("connection refused")

    bench.uploader = away
    bench.checkpoint(10)
    bench.now = 1e9  # long after any end
    bench.drain()
    assert bench.server.checkpoints() == []
    assert "step 10 was not uploaded" in bench.notes()


def test_a_path_outside_the_attempts_folder_is_not_uploaded(bench: Bench) -> None:
    bench.event(kind="artifact", name="passwords", path="../../../../../../etc/passwd")
    bench.drain()
    assert (Source.ARTIFACT, 0) not in bench.server.kept
    assert "does not lead to something in the folder of the attempt" in bench.notes()


def test_an_artifact_of_one_file_goes_up_under_its_name(bench: Bench) -> None:
    (bench.folder.path / "artifacts").mkdir()
    (bench.folder.path / "artifacts" / "plot.png").write_bytes(b"png")
    bench.event(kind="artifact", name="curve", path="artifacts/plot.png")
    bench.drain()
    (batch,) = bench.server.kept[Source.ARTIFACT, 0].values()
    assert batch.artifact is not None
    assert (batch.artifact.name, from_json(batch.artifact.manifest_json).files[0].path) == (
        "curve",
        "plot.png",
    )
