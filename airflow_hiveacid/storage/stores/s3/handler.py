"""A pyarrow file system for S3 that uses boto3.

Objects have only keys. A directory is a common prefix of keys, and disappears with its last object.
A file appears whole when it is closed, that of a task attempt (`AttemptPath`) when the driver
publishes it: a writer sends its bytes as parts of an upload, and an attempt's leaves the upload
open, and notes it for the driver (`StagedUpload`). A failed upload is never completed.
"""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.codec import Codec
from airflow_hiveacid.format.names import attempt_of
from airflow_hiveacid.storage.stores.open_files import FileReader, FileWriter, StoreHandler
from airflow_hiveacid.storage.stores.s3 import S3_BY_BOTO3
from airflow_hiveacid.storage.stores.s3.bucket import OpenUpload, Part, S3Bucket, StoredObject
from airflow_hiveacid.storage.stores.threads import each_in_threads

_FOLDER: Final = "_$folder$"
"""The ending of a key that marks a directory; older tools create such keys."""

_NS_PER_S: Final = 1_000_000_000


class S3Handler(StoreHandler):
    """pyarrow's handler for one bucket, also used to publish. Paths begin with the bucket name."""

    def __init__(self, bucket: S3Bucket) -> None:
        super().__init__(f"s3a://{bucket.name}")
        self._bucket = bucket

    def get_type_name(self) -> str:
        """Return `S3_BY_BOTO3`."""
        return S3_BY_BOTO3

    # ---- looking ---------------------------------------------------------------------------------

    def _look(self, path: str) -> pafs.FileInfo:
        key = self._key(path)
        stored_object = self._bucket.look(key) if key else None
        if stored_object is not None:
            return self._info(stored_object)
        if self._bucket.has_any(_prefix(key)) or not key:
            return pafs.FileInfo(path, pafs.FileType.Directory)
        return pafs.FileInfo(path, pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """Return the file information of everything in a directory; nothing if it is missing."""
        prefix = _prefix(self._key(selector.base_dir))
        if selector.recursive:
            return list(self._tree(prefix))
        infos = {}
        for child in self._bucket.children(prefix):
            if isinstance(child, str):
                path = f"{self._bucket.name}/{child.rstrip('/')}"
                infos[path] = pafs.FileInfo(path, pafs.FileType.Directory)
            elif not _is_directory_mark(child.key):
                info = self._info(child)
                infos[info.path] = info
        return list(infos.values())

    def _tree(self, prefix: str) -> Iterator[pafs.FileInfo]:
        directories: set[str] = set()
        for stored_object in self._bucket.below(prefix):
            relative_path = stored_object.key[len(prefix) :]
            parts = relative_path.split("/")
            for count in range(1, len(parts)):
                directory = prefix + "/".join(parts[:count])
                if directory not in directories:
                    directories.add(directory)
                    path = f"{self._bucket.name}/{directory}"
                    yield pafs.FileInfo(path, pafs.FileType.Directory)
            if not _is_directory_mark(stored_object.key):
                yield self._info(stored_object)

    # ---- directories -----------------------------------------------------------------------------

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - pyarrow's
        """Do nothing, because a directory exists only while it contains files."""

    def delete_dir(self, path: str) -> None:
        """Delete all below a path, or raise FileNotFoundError; abort uploads that notes record."""
        key = self._key(path)
        if not key:
            self.delete_root_dir_contents()  # always raises an error
        keys = [stored_object.key for stored_object in self._bucket.below(_prefix(key))]
        if not keys:
            raise FileNotFoundError(errno.ENOENT, "there is nothing below it", path)
        self._delete(keys)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        """Delete everything in a directory."""
        try:
            self.delete_dir(path)
        except FileNotFoundError:
            if not missing_dir_ok:
                raise

    # ---- files -----------------------------------------------------------------------------------

    def delete_file(self, path: str) -> None:
        """Delete a file, if it exists; for an attempt's file, also abort the upload."""
        self._delete([self._key(path)])

    def _delete(self, keys: Sequence[str]) -> None:
        notes = [key for key in keys if attempt_of(key) is not None]
        each_in_threads(self._forget, notes)
        self._bucket.delete(keys)

    def _forget(self, note_key: str) -> None:
        try:
            note = StagedUpload.read(self._bucket, note_key)
        except FileNotFoundError:
            return
        self._bucket.give_up(note.key, note.upload_id)

    def move(self, src: str, dest: str) -> None:
        """Raise an error, because S3 has no renames."""
        raise OSError(errno.ENOTSUP, f"S3 cannot rename it to {dest}", src)

    def copy_file(self, src: str, dest: str) -> None:
        """Raise an error, because no caller copies files."""
        raise OSError(errno.ENOTSUP, f"copying it to {dest} is not supported", src)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position."""
        stored_object = self._bucket.look(self._key(path))
        if stored_object is None:
            raise FileNotFoundError(errno.ENOENT, "it does not exist", path)
        return pa.PythonFile(S3Reader(self._bucket, stored_object), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:  # noqa: ARG002
        """Open a file for writing; when it is closed, it appears or replaces an existing file."""
        key = self._key(path)
        attempt = attempt_of(key)
        writer = S3Writer(self._bucket, key)
        if attempt is not None:
            writer = AttemptWriter(self._bucket, attempt.final, attempt.attempt, key)
        return pa.PythonFile(writer, mode="w")

    # ---- publishing ------------------------------------------------------------------------------

    def publish(self, attempt_path: str, size_bytes: int) -> None:
        """Make an attempt's file visible if it has the size that the task reported.

        Raises FileNotFoundError if the attempt has written no file, FileExistsError if another file
        has its name, and OSError for another size, or an upload that cannot be completed.
        """
        note = StagedUpload.read(self._bucket, self._key(attempt_path))
        if note.size_bytes != size_bytes:
            text = f"it has {note.size_bytes} bytes, but its task reported {size_bytes}"
            raise OSError(errno.EBADMSG, text, attempt_path)
        note.publish(self._bucket)

    def put_once(self, path: str, content: bytes, mark: str) -> None:
        """Create a small file with a mark that identifies its writer (`S3Bucket.put_once`)."""
        self._bucket.put_once(self._key(path), content, mark)

    def take_back(self, attempt_path: str) -> None:
        """Undo `publish`, or prevent a later `publish`; do not touch other writers' files."""
        attempt = attempt_of(self._key(attempt_path))
        if attempt is None:
            raise ValueError(attempt_path)
        try:
            StagedUpload.read(self._bucket, self._key(attempt_path)).take_back(self._bucket)
        except FileNotFoundError:
            self._bucket.delete_marked(attempt.final, attempt.attempt)

    def delete_marked(self, path: str, mark: str) -> None:
        """Delete a file that `put_once` created, if it has this mark."""
        self._bucket.delete_marked(self._key(path), mark)

    def open_uploads(self, path: str) -> list[OpenUpload]:
        """Return the uploads below a path that are neither completed nor aborted."""
        return [
            OpenUpload(f"{self._bucket.name}/{upload.path}", upload.upload_id, upload.begun_s)
            for upload in self._bucket.uploads(_prefix(self._key(path)))
        ]

    def give_up(self, path: str, upload_id: str) -> None:
        """Abort an upload."""
        self._bucket.give_up(self._key(path), upload_id)

    def _key(self, path: str) -> str:
        bucket, _, key = path.partition("/")
        if bucket != self._bucket.name:
            raise ValueError(f"{path} is not in bucket {self._bucket.name}")
        return key.rstrip("/")

    def _info(self, found: StoredObject) -> pafs.FileInfo:
        return pafs.FileInfo(
            f"{self._bucket.name}/{found.key}",
            pafs.FileType.File,
            size=found.size_bytes,
            mtime_ns=int(found.modified_s * _NS_PER_S),
        )


def _prefix(key: str) -> str:
    return f"{key}/" if key else ""


def _is_directory_mark(key: str) -> bool:
    return key.endswith(("/", _FOLDER))


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
