from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.styles import COLOURS, DASHES, MARKERS, home_colour, letters, styles

IDS = st.sets(st.text("0123456789abcdef", min_size=8, max_size=8), max_size=60)


@given(IDS, st.randoms())
def test_the_order_of_the_runs_changes_no_style(ids: set[str], random):
    shuffled = sorted(ids)
    random.shuffle(shuffled)
    assert styles(shuffled) == styles(sorted(ids))


@given(IDS)
def test_runs_are_told_apart_by_colour_and_without_it(ids: set[str]):
    chosen = styles(sorted(ids)).values()
    assert len({style.colour for style in chosen}) == min(len(ids), COLOURS)
    if len(ids) <= DASHES * MARKERS:
        assert len({(style.dash, style.marker) for style in chosen}) == len(ids)


@given(IDS)
def test_a_run_alone_in_its_colour_keeps_it(ids: set[str]):
    homes = [home_colour(run_id) for run_id in ids]
    if len(set(homes)) == len(homes):
        assert all(style.colour == home_colour(run_id) for run_id, style in styles(sorted(ids)).items())


def test_letters_go_on_after_z():
    assert letters(28)[24:] == ["Y", "Z", "AA", "AB"]
