"""Images, tables and texts of a job on their way up: documents in the spool, files as they are."""

import json

import pytest

from agent.uplink.cursors import Source
from agent.uplink.mask import Mask
from agent.uplink.uploads import LARGEST_VALUE
from tests.agent.uplink.bench import Bench

PNG = b"\x89PNG\r\n\x1a\n...."


def image(bench: Bench, name: str = "values/1.png", data: bytes = PNG, **changes: object) -> None:
    file = bench.folder.path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    event = {"kind": "value", "type": "image", "key": "sample", "step": 3, "index": 0, "path": name}
    bench.event(**{**event, **changes})


def sent(bench: Bench) -> list[tuple[str, int, bytes]]:
    batches = bench.server.kept.get((Source.VALUE, 0), {})
    return [
        (batch.value.key, batch.value.step, batch.data) for _, batch in sorted(batches.items()) if batch.value
    ]


def test_an_image_goes_up_with_its_bytes_between_the_metrics(bench: Bench) -> None:
    bench.metrics(1)
    image(bench)
    bench.metrics(2)
    bench.drain()
    assert sent(bench) == [("sample", 3, PNG)]
    assert bench.steps() == [1, 2]


def test_a_new_agent_sends_no_image_again_that_was_acknowledged(bench: Bench) -> None:
    image(bench)
    while not sent(bench):
        bench.exchange()
    bench.exchange()  # where it stands is on disk with the next step
    bench.server.kept.clear()
    bench.new_agent()
    bench.drain()
    assert sent(bench) == []


def test_a_table_is_a_line_with_its_secrets_masked(bench: Bench) -> None:
    bench.new_agent(Mask((("HF_TOKEN", "hf_abcdef"),)))
    document = {"columns": ["text"], "rows": [["my hf_abcdef"]]}
    bench.event(kind="value", type="table", key="samples", step=1, index=0, document=document)
    bench.drain()
    [line] = bench.server.text(Source.SPOOL, 0).splitlines()
    assert json.loads(line)["document"]["rows"] == [["my •••HF_TOKEN•••"]]


def test_the_name_and_the_caption_of_an_image_are_masked(bench: Bench) -> None:
    bench.new_agent(Mask((("HF_TOKEN", "hf_abcdef"),)))
    image(bench, key="of hf_abcdef", caption="hf_abcdef")
    bench.drain()
    [batch] = bench.server.kept[Source.VALUE, 0].values()
    assert batch.value is not None
    assert (batch.value.key, batch.value.caption) == ("of •••HF_TOKEN•••", "•••HF_TOKEN•••")


def test_an_image_beyond_the_limit_is_left_out_with_a_sentence(bench: Bench) -> None:
    image(bench, data=PNG.ljust(LARGEST_VALUE + 1))
    bench.drain()
    assert sent(bench) == []
    assert 'The image "sample" of step 3 was not uploaded: it has more than' in bench.notes()


@pytest.mark.parametrize("path", ["../../secret", "/etc/passwd", "values/missing.png"])
def test_only_files_of_the_attempt_go_up(bench: Bench, path: str) -> None:
    image(bench, path=path)
    bench.drain()
    assert sent(bench) == []


def test_a_link_out_of_the_attempt_is_not_followed(bench: Bench) -> None:
    (bench.folder.path / "values").mkdir()
    (bench.folder.path / "values" / "1.png").symlink_to("/etc/hostname")
    bench.event(kind="value", type="image", key="sample", step=3, index=0, path="values/1.png")
    bench.drain()
    assert sent(bench) == []
