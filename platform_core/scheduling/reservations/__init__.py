"""Quota and nodes reserved for jobs that cannot start yet. Read `quota_ledger`, `nodes`."""
