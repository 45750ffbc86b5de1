"""The sample of its training data that comes with a version: one request and its answer a line, as callers send them."""

FILE = "reference.jsonl"
MOST_ROWS = 500
MOST_BYTES = 8 << 20
