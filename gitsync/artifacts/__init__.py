"""Owner of stored bytes: which files an artifact holds, its canonical form, and where it lies.

`members` says what belongs to a rollout, `tar` writes and extracts the canonical tar,
`bucket` keeps objects in a folder or in an S3-compatible store. See `docs/artifact-format.md`.
"""

from gitsync.artifacts.bucket import Bucket, ObjectMissing
from gitsync.artifacts.members import LinkMemory, Members, closure, content_key
from gitsync.artifacts.tar import FORMAT, ArtifactTooLarge, write_tar

__all__ = [
    "FORMAT",
    "ArtifactTooLarge",
    "Bucket",
    "LinkMemory",
    "Members",
    "ObjectMissing",
    "closure",
    "content_key",
    "write_tar",
]
