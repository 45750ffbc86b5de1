"""What it costs and how good it is: one command each, JSON lines out."""
