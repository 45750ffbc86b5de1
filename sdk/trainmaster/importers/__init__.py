"""Runs of other trackers, brought into the platform: event files of TensorBoard, MLflow servers, folders of W&B."""
