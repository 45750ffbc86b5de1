"""Which running jobs stop, migrate or change size so that others start. Read `reclaim`, `offers`, `eviction`, `elastic`."""
