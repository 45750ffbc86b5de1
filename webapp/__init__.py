"""The control plane."""

from pathlib import Path

_INSTALLED = Path(__file__).parent / "files"
# The folder with templates, static, examples and manage.py: the checkout, or what a wheel carries.
ROOT = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).resolve().parents[1]
