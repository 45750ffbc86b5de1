"""The state of one round, and drafts of it as if some running jobs had stopped. Read `round_state`, `what_if`."""
