"""The file with the result of one submission; this module reads, keeps and removes the file.

Every submission has its own directory, so a late driver of an earlier try cannot overwrite this
result.
"""

from __future__ import annotations

import json
import logging
import posixpath
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.jobs.job import JobResult

_NAME: Final = "result.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """The location of one result; `uri` is the file's URI."""

    uri: str

    @classmethod
    def local(cls, directory: Path) -> ResultFile:
        """Return a local location, for a driver on this machine."""
        return cls(uri=f"file:{directory / _NAME}")

    @classmethod
    def shared(cls, result_dir: str | None) -> ResultFile:
        """Return a new location in the directory that workers and drivers share."""
        if not result_dir:
            raise errors.ConfigurationError(
                "cluster deploy mode needs a result directory that both the driver and this worker"
                " can reach: set result_dir of the operator, or in the extra of the metastore"
                " connection, to a URI such as hdfs://nn/tmp/hiveacid"
            )
        return cls(uri=f"{result_dir.rstrip('/')}/{uuid.uuid4().hex}/{_NAME}")

    def read(self) -> JobResult | None:
        """Return the job's result, or None if the job left no result."""
        # Importing Arrow at the top of the module would slow down every DAG parse by 0.2 s.
        from airflow_hiveacid.storage.stores import filesystem, locations  # noqa: PLC0415

        fs, path = locations.open_location(self.uri)
        try:
            content = filesystem.read_bytes(fs, path)
        except FileNotFoundError:
            return None
        try:
            json.loads(content)
        except ValueError as exc:
            # The driver died while it wrote the file. Raise the error here, because JobResult.parse
            # would wrongly report that a different release wrote the file.
            raise errors.JobFailedError(f"the result in {self.uri} is truncated: {exc}") from None
        return JobResult.parse(content.decode())

    @property
    def uploads(self) -> str:
        """The directory of files that are uploaded for the driver.

        It is next to the submission's directory, not in it: `spark-submit` would create that
        directory for the submitting user, and a driver that runs as a different user could not
        write its result.
        """
        return f"{self._directory}-uploads"

    @property
    def follower_uri(self) -> str:
        """The file that shows the driver that it has a follower.

        It is not in the submission's directory, which must belong to the driver; see `uploads`.
        """
        return f"{self._directory}-follower"

    def note_follower(self, *, makes_directory: bool = True) -> None:
        """Let the driver begin: from now on, this process follows it.

        Raise StorageError if the file cannot be written; or if `makes_directory` is false, and the
        result directory is missing: it may be a disk that this machine does not share.
        """
        from airflow_hiveacid.storage.stores import filesystem, locations  # noqa: PLC0415 - as in `read`

        fs, path = locations.open_location(self.follower_uri)
        directory = posixpath.dirname(path)
        is_missing = locations.traits_of(fs).keeps_directories and not filesystem.exists(
            fs, directory
        )
        if is_missing and not makes_directory:
            raise errors.StorageError(f"there is no directory {directory} here")
        filesystem.write_bytes(fs, path, b"{}")

    def remove(self) -> None:
        """Remove the submission's directory, and the file of its follower."""
        from airflow_hiveacid.storage.stores import filesystem, locations  # noqa: PLC0415 - as in `read`

        _remove(self._directory)
        filesystem.delete_file(*locations.open_location(self.follower_uri))

    def remove_uploads(self) -> None:
        """Remove the files that were uploaded for the driver, if there are any."""
        _remove(self.uploads)

    @property
    def _directory(self) -> str:
        return self.uri.removesuffix(f"/{_NAME}")


def keep_result(result_dir: str | None, whole: Mapping[str, JsonValue]) -> str | None:
    """Write a task's whole result to a new file in the result directory, and return the file's URI.

    The file is never removed. If there is no result directory, or if the file cannot be written,
    return None and raise no error, because the task's changes are already committed.
    """
    from airflow_hiveacid.storage.stores import filesystem, locations  # noqa: PLC0415 - as in `read`

    if not result_dir:
        return None
    uri = ResultFile.shared(result_dir).uri
    try:
        fs, path = locations.open_location(uri)
        filesystem.write_bytes(fs, path, json.dumps(whole).encode())
    except errors.HiveAcidError as error:
        log.warning("the whole result cannot be stored; XCom has its short form: %s", error)
        return None
    log.info("XCom has a short form of the result; the whole result is in %s", uri)
    return uri


def _remove(directory: str) -> None:
    from airflow_hiveacid.storage.stores import filesystem, locations  # noqa: PLC0415 - as in `read`

    filesystem.delete_directory(*locations.open_location(directory))
