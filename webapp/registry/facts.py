"""What is known of the files of a version: its formats and its signature."""

from __future__ import annotations

from platform_core.registry import signatures
from platform_core.registry.formats import formats_of
from platform_core.registry.signatures import EMPTY, Signature
from webapp.artifacts import queries as artifacts
from webapp.registry import exports
from webapp.registry.models import ModelVersion


def formats(version: ModelVersion) -> list[str]:
    """By the names of its files; empty where none says one."""
    if version.manifest_id is None:
        return []
    return formats_of(str(file["path"]) for file in artifacts.file_list(version.manifest_id))


def signature(version: ModelVersion) -> Signature:
    """As people gave it, else that of its exports; empty where neither is known."""
    if version.signature:
        return signatures.read(version.signature)
    report = exports.report_of(version)
    return report.signature if report else EMPTY
