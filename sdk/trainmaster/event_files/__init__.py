"""TensorBoard's event files: read while they grow, and written. Needs the package `tensorboard`."""
