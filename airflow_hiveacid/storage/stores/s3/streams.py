"""Open S3 objects for `pyarrow.PythonFile`.

A writer sends its bytes as parts of an upload to the object's key. The object is invisible until it
is completed, and a failed one never is. A writer for a task attempt leaves it open, and notes it
for the driver (`StagedUpload`).
"""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from airflow_hiveacid.format.codec import Codec
from airflow_hiveacid.storage.stores.open_files import FileReader, FileWriter
from airflow_hiveacid.storage.stores.s3.bucket import Part, S3Bucket, StoredObject

_CODEC: Final = Codec()
# S3 allows 10,000 parts of at least 5 MiB (except the last part). So parts grow with the file.
_PART_BYTES: Final = 8 << 20
_PARTS_OF_A_SIZE: Final = 1000
_LEAST_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedUpload:
    """An attempt's file that is completely uploaded but still invisible.

    A task notes it at the path where the attempt's staged file would be. The note is small and
    contains no secrets: to complete the upload, a process needs credentials. `key` is the file's
    final key; `attempt` becomes the object's mark.
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


class S3Reader(FileReader):
    """An object open for reading. The reader holds bytes that were read ahead."""

    def __init__(self, bucket: S3Bucket, found: StoredObject) -> None:
        super().__init__(found.size_bytes)
        self._bucket, self._found = bucket, found
        self._held_from, self._held = 0, b""

    def close(self) -> None:
        """End reading."""
        super().close()
        self._held = b""

    def _take(self, wanted: int, left: int) -> bytes:
        start = self._at - self._held_from
        if start < 0 or start + wanted > len(self._held):
            # A request costs as much as the transfer of a megabyte.
            self._fetch(min(left, max(wanted, _LEAST_READ_BYTES)))
            start = 0
        return self._held[start : start + wanted]

    def _fetch(self, length: int) -> None:
        stored_object = self._found
        content = self._bucket.read(stored_object.key, self._at, length, stored_object.tag)
        if len(content) != length:
            raise OSError(
                errno.EAGAIN,
                f"received {len(content)} of {length} bytes at {self._at}",
                stored_object.key,
            )
        self._held_from, self._held = self._at, content


class S3Writer(FileWriter):
    """An object open for writing."""

    def __init__(self, bucket: S3Bucket, key: str, mark: str | None = None) -> None:
        super().__init__(key)
        self._bucket, self._key, self._mark = bucket, key, mark
        self._upload_id: str | None = None
        self._parts: list[Part] = []

    def write(self, data: bytes) -> int:
        """Buffer `data` (bytes or an Arrow buffer), and send full parts."""
        self._check()
        with memoryview(data) as view:
            self._waiting += view
            self._at += view.nbytes
            count = view.nbytes
        size = _PART_BYTES * (1 + len(self._parts) // _PARTS_OF_A_SIZE)
        while len(self._waiting) >= size:
            content = bytes(self._waiting[:size])
            del self._waiting[:size]
            self._do(partial(self._send, content))
        return count

    def _end(self) -> None:
        self._do(self._finish)

    def _finish(self) -> None:
        content = bytes(self._waiting)
        if self._upload_id is None:
            self._bucket.put(self._key, content, mark=self._mark)
            return
        if content:
            self._send(content)
        self._bucket.complete(self._key, self._upload_id, self._parts, mark=self._mark, once=False)

    def _send(self, content: bytes) -> None:
        if self._upload_id is None:
            self._upload_id = self._bucket.begin_upload(self._key, self._mark)
        number = len(self._parts) + 1
        self._parts.append(self._bucket.send_part(self._key, self._upload_id, number, content))

    def _do(self, call: Callable[[], object]) -> None:
        try:
            super()._do(call)
        except BaseException:
            if self._upload_id is not None:
                with contextlib.suppress(OSError):  # a later cleaning aborts the upload
                    self._bucket.give_up(self._key, self._upload_id)
            raise


class AttemptWriter(S3Writer):
    """A file of an attempt: an open upload to the final key, and a note about the upload."""

    def __init__(self, bucket: S3Bucket, key: str, attempt: str, note_key: str) -> None:
        super().__init__(bucket, key, attempt)
        self._attempt, self._note_key = attempt, note_key

    def _finish(self) -> None:
        if self._waiting or not self._parts:
            self._send(bytes(self._waiting))
        if self._upload_id is None:
            raise OSError(errno.EIO, "an upload has no ID", self._key)
        note = StagedUpload(
            key=self._key,
            upload_id=self._upload_id,
            parts=tuple(self._parts),
            size_bytes=self._at,
            attempt=self._attempt,
        )
        self._bucket.put(self._note_key, note.dump())
