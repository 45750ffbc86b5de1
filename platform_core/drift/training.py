"""The sample of its training data that comes with a version: a request and its answer a line."""

FILE = "reference.jsonl"
MOST_ROWS = 500
MOST_BYTES = 8 << 20
