from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.sections import in_order, in_sections, section_of


def test_sections_stand_in_the_order_in_which_people_look():
    keys = [
        "system/gpu0/power",
        "perf/step_time",
        "layers/3",
        "val/loss",
        "train/lr",
        "train/loss",
        "epoch",
        "eval/f1",
    ]
    assert [section.name for section in in_sections(keys)] == [
        "train", "", "val", "eval", "layers", "perf", "system",
    ]  # fmt: skip
    assert in_sections(keys)[0].keys == ("train/loss", "train/lr")


def test_a_name_without_a_rest_has_no_prefix():
    assert [section_of(key) for key in ("loss", "train/loss", "/loss", "train/")] == ["", "train", "", ""]


@given(st.sets(st.text("abtrain/val.", max_size=12)))
def test_no_metric_is_lost_or_doubled(keys: set[str]):
    assert sorted(in_order(keys)) == sorted(keys)
