"""A node that says nothing while its gang has failed already."""

from __future__ import annotations

import pytest

from platform_core.jobs import events as ev
from platform_core.jobs import gang
from tests.core.jobs.situations import EXITED, running


@pytest.mark.parametrize(("silent", "left"), [(["node-b"], ["node-b"]), (["node-a"], []), ([], [])])
def test_what_is_left_of_a_failed_gang_ends_with_the_silence_of_its_nodes(silent, left):
    story = running().see("node-a", EXITED, 1)
    assert [member.node for member in gang.left_on_silent_nodes(story.job, silent)] == left


def test_a_gang_that_works_and_one_that_saves_before_it_leaves_are_waited_for():
    works, leaves = running(), running().tell(ev.PreemptRequested)
    for story in (works, leaves):
        assert gang.left_on_silent_nodes(story.job, ["node-a", "node-b"]) == ()
