"""Callbacks and loggers for frameworks that run the loop themselves. Each module imports its framework, which is no
dependency of this package."""
