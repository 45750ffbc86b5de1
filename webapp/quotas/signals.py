"""How the apps above hear that waiting jobs may now start, without this app knowing them."""

from django.dispatch import Signal

# Sent inside the transaction, with `team` and `gpu_type`.
limits_changed = Signal()
