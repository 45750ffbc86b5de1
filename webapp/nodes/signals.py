"""How the apps above hear that the cluster can take other work than before, without this app knowing them."""

from django.dispatch import Signal

# Sent inside the transaction that changed it: a node is ready (again), or is lost.
capacity_changed = Signal()

# Sent inside the transaction that drained it: the machine is about to be taken away, with `node_id`, `cause`,
# `by` (the actor) and `at_ms`.
leaving = Signal()
