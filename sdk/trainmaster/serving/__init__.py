"""The model server: `python -m trainmaster.serving FOLDER` serves one model over HTTP, on a node or on a laptop."""
