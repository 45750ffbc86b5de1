"""Which running jobs are stopped, moved or resized for others. Read `reclaim`, `offers`, `eviction`, `elastic`."""
