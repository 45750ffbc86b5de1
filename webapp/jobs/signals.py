"""Signals of jobs to the apps above, which the jobs app does not import."""

from django.dispatch import Signal

# Sent inside the submit transaction with `job` (the row) and `spec`; a receiver that raises refuses the job.
submitted = Signal()
# Sent inside the transaction that takes a running job's slots back, with `job` (the row), `preemption` and `at_ms`.
preempted = Signal()
# Sent inside the transaction that moves jobs, with `jobs`: the core values of those with a new state, start or end.
changed = Signal()
