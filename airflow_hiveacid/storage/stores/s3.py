"""S3 as a file system of pyarrow, by boto3.

Objects have keys and nothing else: a directory is what keys have in common, and goes with its last
object. A file appears whole, when it is closed; one that an attempt of a task writes
(`attempt_paths`) does not appear at all until the driver publishes it. Nothing is renamed.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.storage.stores.attempt_paths import attempt_of
from airflow_hiveacid.storage.stores.s3_bucket import OpenUpload
from airflow_hiveacid.storage.stores.s3_client import S3_BY_BOTO3
from airflow_hiveacid.storage.stores.s3_streams import AttemptWriter, S3Reader, S3Writer
from airflow_hiveacid.storage.stores.s3_uploads import StagedUpload
from airflow_hiveacid.storage.stores.threads import each_in_threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.storage.stores.s3_bucket import S3Bucket, StoredObject

_FOLDER: Final = "_$folder$"
"""How keys end by which older tools mark a directory."""

_NS_PER_S: Final = 1_000_000_000


class S3Handler(pafs.FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """What pyarrow, and who publishes, ask of one bucket. Paths begin with its name."""

    def __init__(self, bucket: S3Bucket) -> None:
        self._bucket = bucket

    def __eq__(self, other: object) -> bool:
        return isinstance(other, S3Handler) and other._bucket.name == self._bucket.name

    def __hash__(self) -> int:
        return hash(self._bucket.name)

    def get_type_name(self) -> str:
        """See `S3_BY_BOTO3`."""
        return S3_BY_BOTO3

    def normalize_path(self, path: str) -> str:
        """As it is: nothing in it has a meaning but `/`."""
        return path

    # ---- looking ---------------------------------------------------------------------------------

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """What is at each path.

        Raises:
            OSError: nobody may look, or the store did not answer.
        """
        return [self._look(path) for path in paths]

    def _look(self, path: str) -> pafs.FileInfo:
        key = self._key(path)
        found = self._bucket.look(key) if key else None
        if found is not None:
            return self._info(found)
        if self._bucket.has_any(_prefix(key)) or not key:
            return pafs.FileInfo(path, pafs.FileType.Directory)
        return pafs.FileInfo(path, pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """What lies in a directory; one that is not there is empty.

        Raises:
            OSError: nobody may look, or the store did not answer.
        """
        prefix = _prefix(self._key(selector.base_dir))
        if selector.recursive:
            return list(self._tree(prefix))
        found = {}
        for child in self._bucket.children(prefix):
            if isinstance(child, str):
                path = f"{self._bucket.name}/{child.rstrip('/')}"
                found[path] = pafs.FileInfo(path, pafs.FileType.Directory)
            elif not _is_directory_mark(child.key):
                info = self._info(child)
                found[info.path] = info
        return list(found.values())

    def _tree(self, prefix: str) -> Iterator[pafs.FileInfo]:
        seen: set[str] = set()
        for found in self._bucket.below(prefix):
            below = found.key[len(prefix) :]
            parts = below.split("/")
            for count in range(1, len(parts)):
                directory = prefix + "/".join(parts[:count])
                if directory not in seen:
                    seen.add(directory)
                    path = f"{self._bucket.name}/{directory}"
                    yield pafs.FileInfo(path, pafs.FileType.Directory)
            if not _is_directory_mark(found.key):
                yield self._info(found)

    # ---- directories -----------------------------------------------------------------------------

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - pyarrow's
        """Nothing: a directory is there as long as something is in it."""

    def delete_dir(self, path: str) -> None:
        """Delete all below a path, and give up the uploads that notes below it speak of.

        Raises:
            FileNotFoundError: there is nothing.
            OSError: something cannot be deleted.
        """
        key = self._key(path)
        if not key:
            raise NotImplementedError(f"s3a://{self._bucket.name} is not emptied")
        keys = [found.key for found in self._bucket.below(_prefix(key))]
        if not keys:
            raise FileNotFoundError(errno.ENOENT, "there is nothing", path)
        self._delete(keys)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        """Delete what is in a directory.

        Raises:
            OSError: something cannot be deleted.
        """
        try:
            self.delete_dir(path)
        except FileNotFoundError:
            if not missing_dir_ok:
                raise

    def delete_root_dir_contents(self) -> None:
        """Nobody means this.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"s3a://{self._bucket.name} is not emptied")

    # ---- files -----------------------------------------------------------------------------------

    def delete_file(self, path: str) -> None:
        """Delete a file; of an attempt's, also give up its upload. One that is gone is no error.

        Raises:
            OSError: it cannot be deleted.
        """
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
        """Nobody moves anything here.

        Raises:
            OSError: always.
        """
        raise OSError(errno.ENOTSUP, f"S3 renames nothing, so not to {dest}", src)

    def copy_file(self, src: str, dest: str) -> None:
        """Nobody copies anything here.

        Raises:
            OSError: always.
        """
        raise OSError(errno.ENOTSUP, f"nothing is copied, so not to {dest}", src)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file for reading it in turn.

        Raises:
            OSError: it is not there, or may not be read.
        """
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading it anywhere.

        Raises:
            OSError: it is not there, or may not be read.
        """
        found = self._bucket.look(self._key(path))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "it is not there", path)
        return pa.PythonFile(S3Reader(self._bucket, found), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:  # noqa: ARG002
        """Open a file for writing, in place of one that is there; it appears when it is closed.

        Raises:
            OSError: it cannot be made.
        """
        key = self._key(path)
        attempt = attempt_of(key)
        writer = (
            S3Writer(self._bucket, key)
            if attempt is None
            else AttemptWriter(self._bucket, attempt.final, attempt.attempt, key)
        )
        return pa.PythonFile(writer, mode="w")

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        """Nobody here appends.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"{path} is not appended to")

    # ---- publishing ------------------------------------------------------------------------------

    def publish(self, attempt_path: str, size_bytes: int) -> None:
        """Make the file of an attempt visible, if it is the one that its task told of.

        Raises:
            FileNotFoundError: the attempt has left none.
            FileExistsError: another file has the name.
            OSError: it has another size, was given up, or cannot be completed.
        """
        note = StagedUpload.read(self._bucket, self._key(attempt_path))
        if note.size_bytes != size_bytes:
            text = f"it has {note.size_bytes} bytes, and its task told of {size_bytes}"
            raise OSError(errno.EBADMSG, text, attempt_path)
        note.publish(self._bucket)

    def put_once(self, path: str, content: bytes, mark: str) -> None:
        """Make a small file where none is, with a mark that tells whose it is.

        Raises:
            FileExistsError: somebody else's is there.
            OSError: it cannot be made.
        """
        self._bucket.put_once(self._key(path), content, mark)

    def take_back(self, attempt_path: str) -> None:
        """Undo what `publish` did, or will have done; another's file is left alone.

        Raises:
            OSError: it may still be there.
        """
        attempt = attempt_of(self._key(attempt_path))
        if attempt is None:
            raise ValueError(attempt_path)
        try:
            StagedUpload.read(self._bucket, self._key(attempt_path)).take_back(self._bucket)
        except FileNotFoundError:
            self._bucket.delete_marked(attempt.final, attempt.attempt)

    def delete_marked(self, path: str, mark: str) -> None:
        """Delete a file of `put_once` if it has this mark.

        Raises:
            OSError: it cannot be deleted.
        """
        self._bucket.delete_marked(self._key(path), mark)

    def open_uploads(self, path: str) -> list[OpenUpload]:
        """What was begun below a path and is neither completed nor given up.

        Raises:
            OSError: nobody may look, or the store did not answer.
        """
        return [
            OpenUpload(f"{self._bucket.name}/{found.path}", found.upload_id, found.begun_s)
            for found in self._bucket.uploads(_prefix(self._key(path)))
        ]

    def give_up(self, path: str, upload_id: str) -> None:
        """Have an upload forgotten.

        Raises:
            OSError: it is still there.
        """
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
