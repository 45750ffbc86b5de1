from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArtifactReference:
    """Some files by the id of their manifest, which says what they are, and where they lie."""

    manifest_id: str
    source_url: str
