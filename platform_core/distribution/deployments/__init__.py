"""Deployments and their workers. Read `deployment` (the machine), `presence`, `progress`, `sharing`, `history`."""
