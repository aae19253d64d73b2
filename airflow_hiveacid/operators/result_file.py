"""Where one submission leaves its result, and how the worker reads it.

Takes a URI that the driver and this worker both reach; gives the `JobResult`. Every submission has
a directory of its own, so a late driver of an earlier try cannot speak for this one.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError, JobFailedError
from airflow_hiveacid.jobs.results import JobResult

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = "result.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """One result's place. `uri` names the file."""

    uri: str

    @classmethod
    def local(cls, directory: Path) -> ResultFile:
        """A result on this machine, for a driver on this machine."""
        return cls(uri=f"file:{directory / _NAME}")

    @classmethod
    def shared(cls, result_dir: str | None) -> ResultFile:
        """A result in the directory that workers and drivers share.

        Raises:
            ConfigurationError: none is configured.
        """
        if not result_dir:
            raise ConfigurationError(
                "cluster deploy mode needs a place for results that the driver and this worker both"
                " reach: set the operator's result_dir, or result_dir in the extra of the metastore"
                " connection, to a URI such as hdfs://nn/tmp/hiveacid"
            )
        return cls(uri=f"{result_dir.rstrip('/')}/{uuid.uuid4().hex}/{_NAME}")

    def read(self) -> JobResult | None:
        """The result, or None if the job left none.

        Raises:
            ContractVersionError: another release wrote it.
            JobFailedError: it is no result at all.
            StorageError: it cannot be read.
        """
        # Arrow and its file systems cost every DAG parse 0.2 s if they are imported above.
        from airflow_hiveacid.storage.stores.filesystem import read_bytes  # noqa: PLC0415
        from airflow_hiveacid.storage.stores.locations import open_location  # noqa: PLC0415

        fs, path = open_location(self.uri)
        try:
            text = read_bytes(fs, path).decode()
        except FileNotFoundError:
            return None
        try:
            json.loads(text)
        except json.JSONDecodeError as exc:
            # A driver that died while it wrote; to the contract it would look like another release.
            raise JobFailedError(f"the result in {self.uri} is cut off: {exc}") from exc
        return JobResult.parse(text)

    @property
    def uploads(self) -> str:
        """A directory for what is uploaded for the driver.

        It lies beside the submission's: whoever submits makes it, and in that one's own directory a
        driver of another user could not write its result, after its commit.
        """
        return f"{self._directory}-uploads"

    def remove(self) -> None:
        """Remove the submission's directory.

        Raises:
            StorageError: it cannot be removed.
        """
        _remove(self._directory)

    def remove_uploads(self) -> None:
        """Remove what was uploaded for the driver, if anything was.

        Raises:
            StorageError: it cannot be removed.
        """
        _remove(self.uploads)

    @property
    def _directory(self) -> str:
        return self.uri.removesuffix(f"/{_NAME}")


def _remove(directory: str) -> None:
    # Arrow is not for who parses DAGs, as above.
    from airflow_hiveacid.storage.stores.filesystem import delete_directory  # noqa: PLC0415 - as above
    from airflow_hiveacid.storage.stores.locations import open_location  # noqa: PLC0415 - as above

    fs, path = open_location(directory)
    delete_directory(fs, path)
