"""Signals of the registry to the apps above, which it does not import."""

from django.dispatch import Signal

# Sent inside the transaction in which the files of a version can be had from now on, with `version` (the row).
version_ready = Signal()

# Sent when an export of a version was read or measured, with `version` (the row): its gate may let it through now.
exports_known = Signal()
