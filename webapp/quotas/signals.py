"""Tells the apps above that waiting jobs may now start."""

from django.dispatch import Signal

# Sent inside the transaction, with `team` and `gpu_type`.
limits_changed = Signal()
