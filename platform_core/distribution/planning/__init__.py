"""Strategies of distribution, one a file."""
