"""How the apps above hear of a new job without the jobs app knowing them."""

from django.dispatch import Signal

# Sent inside the submit transaction with `job` (the row) and `spec`; a receiver that raises refuses the job.
submitted = Signal()
