"""Service levels of the platform: objectives, error budgets, burn rates and their trend."""
