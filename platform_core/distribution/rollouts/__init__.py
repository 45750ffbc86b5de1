"""Rollouts of a new version. Read `states`, `canaries`, `rollout` (the state machine), `checks`."""
