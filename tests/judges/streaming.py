"""Knows how to run Hive's streaming writer, 4.0.1's or 3.1.3's, in a process that tests kill.

Example:
    with StreamingWriter("4.0.1", "thrift://127.0.0.1:9083") as writer:
        writer.open("db.t", txns=3)
        writer.write(rows=2, commit=True)
        writer.pour()  # rows of the second transaction, without an end
        writer.kill()
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final, Self

from tests.judges.engine import table_names
from tests.judges.installation import Judge, installation
from tests.judges.line_process import LineProcess
from tests.judges.site import CONF, hive_site

_JUDGES: Final = {"4.0.1": Judge.HIVE_4, "3.1.3": Judge.ENGINE_3}


class StreamingWriter:
    """A writer of tables with the columns (id bigint, name string); see `StreamBatch.java`."""

    def __init__(self, version: str, metastore_uri: str) -> None:
        self._work_dir = Path(tempfile.mkdtemp(prefix="streaming-writer-"))
        site = hive_site(self._work_dir, {"hive.metastore.uris": metastore_uri})
        (self._work_dir / "hive-site.xml").write_text(site)
        judge = _JUDGES[version]
        self._process = LineProcess(
            "judge.StreamServer",
            java=judge.tool("java"),
            class_path=installation(judge).class_path(self._work_dir, CONF),
            work_dir=self._work_dir,
            timezone="UTC",
            heap_mb=512,
        )

    def open(self, table: str, *, txns: int) -> int:
        """Opens a batch of transactions; returns the write ID of the first one."""
        _, answer = self._process.request({"step": "open", **table_names(table), "txns": txns})
        first: int = answer["first"]
        return first

    def write(self, *, rows: int, commit: bool) -> None:
        """Writes the next transaction's rows, and commits or aborts it.

        The rows' IDs are 100 times the write ID, plus 0, 1, ...
        """
        self._process.request({"step": "write", "rows": rows, "commit": commit})

    def pour(self) -> None:
        """Starts to write rows of the next transaction, until it is killed."""
        self._process.send({"step": "pour"})

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the process if it still runs."""
        self.kill()
        self._process.close()
        shutil.rmtree(self._work_dir, ignore_errors=True)
