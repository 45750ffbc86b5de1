"""Decisions about endpoints: batches of requests, the replica that answers, how many there are, and which version."""
