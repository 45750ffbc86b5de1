"""Quotas, recent use and costs of teams."""
