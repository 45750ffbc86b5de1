"""What the SDK measures of a training loop by itself."""
