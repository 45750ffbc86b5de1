"""What was made from what: data, code, runs, checkpoints, models, and the services that use them."""
