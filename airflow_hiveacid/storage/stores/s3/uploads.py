"""Notes that tasks write instead of staged files; a note describes an upload to complete.

A note is at the path where the attempt's staged file would be. The note is small and contains no
secrets: to complete the upload, a process needs credentials.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from typing import Final, Self

from airflow_hiveacid.format.codec import Codec
from airflow_hiveacid.storage.stores.s3.bucket import Part, S3Bucket

_CODEC: Final = Codec()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedUpload:
    """An attempt's file that is completely uploaded but still invisible.

    `key` is the file's final key; `attempt` becomes the object's mark.
    """

    key: str
    upload_id: str
    parts: tuple[Part, ...]
    size_bytes: int
    attempt: str

    def dump(self) -> bytes:
        """Return the note as JSON."""
        return json.dumps(_CODEC.to_json(self)).encode()

    @classmethod
    def read(cls, bucket: S3Bucket, note_key: str) -> Self:
        """Read the note of an upload."""
        try:
            return _CODEC.read(cls, json.loads(bucket.read_whole(note_key)))
        except (ValueError, RecursionError) as error:
            raise OSError(
                errno.EBADMSG, f"it is not the note of an upload: {error!r}", note_key
            ) from error

    def publish(self, bucket: S3Bucket) -> None:
        """Make the file visible, unless a different file exists; a second call does nothing."""
        bucket.complete(self.key, self.upload_id, self.parts, mark=self.attempt, once=True)

    def take_back(self, bucket: S3Bucket) -> None:
        """Undo `publish`, or prevent a later `publish`."""
        # Abort first. Then no process can complete the upload after the check for its object.
        bucket.give_up(self.key, self.upload_id)
        bucket.delete_marked(self.key, self.attempt)
