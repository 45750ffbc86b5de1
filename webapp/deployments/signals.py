from django.dispatch import Signal

# Sent inside the transaction that holds the deployment's row. Arguments: `row`, and `nodes` whose copies are complete
# now, or no longer; empty when the deployment was cancelled.
copies_changed = Signal()
