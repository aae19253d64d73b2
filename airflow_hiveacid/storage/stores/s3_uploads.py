"""What a task leaves instead of a staged file: a note of an upload that only needs completing.

The note lies where the attempt's file would. It is small, and holds no secret: whoever completes
the upload needs the right to.
"""

from __future__ import annotations

import errno
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

from airflow_hiveacid.storage.stores.s3_bucket import Part

if TYPE_CHECKING:
    from airflow_hiveacid.storage.stores.s3_bucket import S3Bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedUpload:
    """One file of one attempt, all of whose bytes have arrived, and which nobody sees.

    `key` is where it belongs; `attempt` becomes the object's mark.
    """

    key: str
    upload_id: str
    parts: tuple[Part, ...]
    size_bytes: int
    attempt: str

    def dump(self) -> bytes:
        """As text."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, bucket: S3Bucket, note_key: str) -> Self:
        """That of a note.

        Raises:
            FileNotFoundError: there is none.
            OSError: it cannot be read, or is none.
        """
        try:
            body = json.loads(bucket.read_whole(note_key))
            parts = tuple(Part(int(number), str(tag)) for number, tag in body.pop("parts"))
            return cls(parts=parts, **body)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise OSError(errno.EBADMSG, f"it is no note of an upload: {error!r}", note_key) from (
                error
            )

    def publish(self, bucket: S3Bucket) -> None:
        """Make the file visible, where nobody else's is; doing it again is no error.

        Raises:
            FileExistsError: another file has the name.
            OSError: it was given up before, or cannot be completed.
        """
        bucket.complete(self.key, self.upload_id, self.parts, mark=self.attempt, once=True)

    def take_back(self, bucket: S3Bucket) -> None:
        """Undo that, or see to it that it can never happen.

        Raises:
            OSError: it may still be there.
        """
        # In this order: an upload that is forgotten cannot be completed behind our back.
        bucket.give_up(self.key, self.upload_id)
        bucket.delete_marked(self.key, self.attempt)
