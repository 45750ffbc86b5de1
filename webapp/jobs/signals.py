"""How the apps above hear of what happens to jobs without the jobs app knowing them."""

from django.dispatch import Signal

# Sent inside the submit transaction with `job` (the row) and `spec`; a receiver that raises refuses the job.
submitted = Signal()
# Sent inside the transaction that tells an idle job to stop, with `job` and `for_job` (rows) and `at_ms`.
taken_back = Signal()
