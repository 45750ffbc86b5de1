"""The files of models on this disk."""
