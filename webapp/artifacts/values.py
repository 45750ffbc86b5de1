from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArtifactReference:
    """Some files by the id of their manifest, which says what they are, and where they lie.

    `etags`: what the store called each when they were registered, in the manifest's order; empty: not known.
    """

    manifest_id: str
    source_url: str
    etags: tuple[str, ...] = ()
