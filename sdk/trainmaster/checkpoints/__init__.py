"""Checkpoints: a folder format that is whole or absent, and what goes into it and out of it."""
