"""Stands in for vLLM: its server with the HTTP that callers see."""
