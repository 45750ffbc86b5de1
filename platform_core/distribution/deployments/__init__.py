"""Deployments and their workers. Read `deployment` (the state machine), `presence`, `progress`, `sharing`, `history`."""
