"""What was dropped travels to the loaders as one text, and comes back the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.loading.dropped import MOST_SAMPLES, MOST_SHARDS, NONE, Item, as_text, collect, from_text

SHARDS = st.builds(Item, shard=st.text(min_size=1, max_size=20))
SAMPLES = st.builds(
    Item, loader=st.sampled_from(["train", "eval"]), samples=st.integers(1, 3), sample=st.integers(0, 10**12)
)


@given(st.lists(SHARDS | SAMPLES))
def test_it_comes_back_the_same(items: list[Item]) -> None:
    dropped = collect(items)
    assert from_text(as_text(dropped)) == dropped
    assert dropped.shards == {item.shard for item in items if item.sample is None}
    for item in items:
        assert item.sample is None or item.sample in dropped.of_loader(item.loader, item.samples)


def test_a_sample_of_another_loader_or_of_other_data_is_not_dropped() -> None:
    dropped = collect([Item(loader="train", samples=10, sample=3)])
    assert dropped.of_loader("train", 10) == {3}
    assert dropped.of_loader("train", 11) == dropped.of_loader("eval", 10) == frozenset()


def test_the_text_has_a_bound_and_the_first_stay() -> None:
    shards = [Item(shard=f"{number:06}.tar") for number in range(MOST_SHARDS + 1)]
    samples = [
        Item(loader="train", samples=10**9, sample=10**8 + number) for number in range(MOST_SAMPLES + 1)
    ]
    dropped = collect([*shards, *samples])
    assert len(dropped.shards) == MOST_SHARDS
    assert "000000.tar" in dropped.shards
    assert len(dropped.of_loader("train", 10**9)) == MOST_SAMPLES
    assert len(as_text(dropped)) < 100_000


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"shards": 1, "samples": []}', '{"shards": [], "samples": [[1]]}']
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        from_text(text)
    assert from_text("") == NONE


def test_items_have_names_for_people() -> None:
    assert str(Item(shard="a/b.tar")) == "a/b.tar"
    assert str(Item(loader="train", samples=1000, sample=17)) == "sample 17 of 1,000 of the loader train"
