"""How the apps above hear of what happens to jobs without the jobs app knowing them."""

from django.dispatch import Signal

# Sent inside the submit transaction with `job` (the row) and `spec`; a receiver that raises refuses the job.
submitted = Signal()
# Sent inside the transaction that takes a running job's slots back, with `job` (the row), `preemption` and `at_ms`.
preempted = Signal()
