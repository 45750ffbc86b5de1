"""From production back to training. Read `policy`, `triggers` (whether a cycle begins), `cycle` (its machine)."""
