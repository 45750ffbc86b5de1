"""How the apps above hear what happens to a team's things, without this app knowing them."""

from django.dispatch import Signal

# Sent inside the transaction that deletes it, with `team` and `name`. A receiver that needs it refuses by raising.
secret_deleted = Signal()

# Sent inside the transaction that archives it, with `team`. A receiver that still works for it refuses by raising.
team_archived = Signal()
