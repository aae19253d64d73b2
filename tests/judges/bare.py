"""Knows how to read one ACID directory with Hive's own ORC reader, 4.0.1's or 3.1.3's.

No metastore: directory, snapshot and schema go in, rows with their identity come out. The fastest
judge; one process answers hundreds of requests.

Example:
    with BareReader("4.0.1") as reader:
        rows = reader.read("/warehouse/t", "db.t:3:9223372036854775807::", "struct<id:bigint>")
    # [[{"writeid": 1, "bucketid": 536870912, "rowid": 0}, 7], ...]
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Self

from tests.judges.installation import Judge, installation
from tests.judges.line_process import LineProcess, Row
from tests.judges.site import CONF

# A reader that may see every transaction: nothing is open, nothing was aborted.
_ALL_TXNS: Final = "9223372036854775806:9223372036854775807::"
_JUDGES: Final = {"4.0.1": Judge.HIVE_4, "3.1.3": Judge.READER_3}


class BareReader:
    """Hive's OrcInputFormat in a process of its own.

    Args:
        version: 4.0.1 or 3.1.3.
        timezone: Default time zone of the process; no value may depend on it.
        settings: Of Hadoop, for every directory, such as where an S3 is.
        jars: What it needs besides, such as clients of other stores.
        heap_mb: Its heap; rows are streamed, so it need not grow with the files.
    """

    def __init__(
        self,
        version: Literal["4.0.1", "3.1.3"],
        *,
        timezone: str = "UTC",
        settings: Mapping[str, str] | None = None,
        jars: Sequence[Path] = (),
        heap_mb: int = 512,
    ) -> None:
        self.version = version
        self.timezone = timezone
        self._settings = dict(settings or {})
        self._work_dir = Path(tempfile.mkdtemp(prefix="bare-reader-"))
        self._process = LineProcess(
            "judge.ReaderServer",
            java=_JUDGES[version].tool("java"),
            class_path=installation(_JUDGES[version]).class_path(CONF, last=jars),
            work_dir=self._work_dir,
            timezone=timezone,
            heap_mb=heap_mb,
            flags=("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",),
        )

    def read(
        self,
        directory: Path | str,
        write_ids: str,
        schema: str,
        *,
        txns: str | None = None,
        buckets: int = -1,
        vectorized: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> list[Row]:
        """Returns the rows that a reader with this snapshot sees, sorted by identity.

        Args:
            directory: Of an unpartitioned table or of one partition.
            write_ids: Hive's text, `db.t:high watermark:lowest open:open,..:aborted,..`.
            schema: Hive's text, `struct<id:bigint,name:string>`, without partition columns.
            txns: Hive's text of the valid transactions, for `_v` suffixes; None sees all.
            buckets: Of a bucketed table; -1 for an unbucketed one. 3.1.3 looks for delete events
                in all files of a delete delta when it is -1, else by bucket.
            vectorized: Use the vectorised reader, which finds delete events in another way.
            settings: Further Hive settings, such as `{"hive.exec.orc.split.strategy": "ETL"}`
                for a split a stripe.

        Returns:
            Rows `[{"writeid": .., "bucketid": .., "rowid": ..}, column, ...]`; values as
            `JsonRow.java` describes them.

        Raises:
            JudgeError: Hive's reader failed.
        """
        rows, _ = self._process.request(
            {
                "directory": str(directory),
                "write_ids": write_ids,
                "txns": txns or _ALL_TXNS,
                "schema": schema,
                "buckets": str(buckets),
                "vectorized": vectorized,
                "settings": self._settings | dict(settings or {}),
            }
        )
        return sorted(rows, key=identity_key)

    def close(self) -> None:
        """Ends the process."""
        self._process.close()
        shutil.rmtree(self._work_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def identity_key(row: Row) -> tuple[int, int, int, str]:
    """Orders rows by their identity, then by their text: partitions repeat identities."""
    row_id = row[0]
    return row_id["writeid"], row_id["bucketid"], row_id["rowid"], json.dumps(row[1:])
