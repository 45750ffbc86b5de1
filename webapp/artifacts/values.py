from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArtifactReference:
    """What an agent needs to fetch some files and to know that it got the right ones."""

    manifest_id: str
    manifest_json: str
    source_url: str
