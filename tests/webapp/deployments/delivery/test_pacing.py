"""Whoever leads next goes on with what was seen."""

import json

from platform_core.distribution.slow_nodes.pace import Watch
from platform_core.distribution.slow_nodes.windows import Seen
from webapp.deployments.delivery import pacing


def test_all_that_was_noted_of_a_window_is_there_for_the_next() -> None:
    watch = Watch({"n1": Seen(4000, (5.0, 6.0))}, 7.0, {"n2": 1}, {"n3": "n1"}, 2, {"n4": 1})
    kept = json.loads(json.dumps(pacing._document(watch, 4000)))
    assert pacing._watch(kept) == watch
