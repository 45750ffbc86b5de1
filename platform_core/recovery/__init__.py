"""Recovery after failures: its phases, the effective training time, and silent corruption."""
