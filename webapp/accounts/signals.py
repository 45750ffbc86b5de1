"""Tells the apps above what happens to teams and their secrets."""

from django.dispatch import Signal

# Sent inside the transaction that deletes it, with `team` and `name`. A receiver that needs it refuses by raising.
secret_deleted = Signal()

# Sent inside the transaction that archives it, with `team`. A receiver that still works for it refuses by raising.
team_archived = Signal()
