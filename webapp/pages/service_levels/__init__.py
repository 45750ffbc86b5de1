"""Service levels: what the platform promises and how it keeps it."""
