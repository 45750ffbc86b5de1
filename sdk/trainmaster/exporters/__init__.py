"""Runs of the platform written for other tools: event files of TensorBoard, Parquet."""
