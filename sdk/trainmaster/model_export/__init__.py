"""Exports of a trained model: written, compared with the original, measured, and described in `export.json`."""

from trainmaster.model_export.run import export_model

__all__ = ["export_model"]
