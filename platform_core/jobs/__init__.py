"""What a training job is, and how it moves from submitted to ended."""
