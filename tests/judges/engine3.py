"""Knows how to run statements in Hive 3.1.3's own engine, which writes golden directories.

Its metastore is inside the process: its compactor wants the metastore's database, and a server of
3.1.3 on Java 17 cannot decode the partition filters that the engine sends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from tests.judges.engine import Engine, table_names
from tests.judges.installation import Judge, installation
from tests.judges.line_process import JudgeError, LineProcess
from tests.judges.site import CONF, hive_site

_SETTINGS: Final = {
    "hive.metastore.schema.verification": "false",
    "hive.in.test": "false",
    "hive.merge.mapfiles": "false",
}
_UNFINISHED: Final = {"failed", "initiated", "working", "attempted"}


class Hive3Engine(Engine):
    """Hive 3.1.3 in a process of its own. Not for several threads at once.

    Its tables vanish with it.
    """

    def __init__(self, *, timezone: str = "UTC", heap_mb: int = 1024) -> None:
        work_dir = Path(tempfile.mkdtemp(prefix="hive-3-"))
        site = hive_site(work_dir, {**_SETTINGS, **_embedded(work_dir)})
        (work_dir / "hive-site.xml").write_text(site)
        process = LineProcess(
            "judge.Launch",
            java=Judge.ENGINE_3.tool("java"),
            class_path=installation(Judge.ENGINE_3).class_path(work_dir, CONF),
            work_dir=work_dir,
            timezone=timezone,
            heap_mb=heap_mb,
        )
        super().__init__(process, work_dir)

    def compact(
        self, table: str, partition: str | None = None, kind: Literal["minor", "major"] = "major"
    ) -> None:
        """Queues a compaction and runs Hive's worker once; what became of others does not matter.

        Raises:
            JudgeError: The compaction failed.
        """
        names = table_names(table)
        self._process.request({"op": "compact", **names, "partition": partition, "kind": kind})
        asked = [names["db"], names["table"]]
        unfinished = [
            row
            for row in self.execute("show compactions")[1:]
            if row[1:3] == asked and row[5] in _UNFINISHED
        ]
        if unfinished:
            raise JudgeError(f"compaction of {table} ended as {unfinished}")

    def clean(self) -> None:
        """Runs Hive's cleaner once."""
        self._process.request({"op": "clean"})

    def abort(self, sql: str) -> None:
        """Runs a write that fails with its files in place, before its commit."""
        self.execute("set hive.exec.post.hooks=judge.DieBeforeCommit")
        try:
            self.execute(sql)
        except JudgeError:
            return
        finally:
            self.execute("set hive.exec.post.hooks=")
        raise JudgeError(f"this should have failed before its commit: {sql}")


def _embedded(work_dir: Path) -> Mapping[str, str]:
    config = LocalMetastoreConfig(version="3.1.3", data_dir=work_dir / "metastore")
    with LocalMetastore(config):
        pass  # only for its database: the engine takes it over, with the schema made
    return {
        "hive.metastore.uris": "",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{config.derby_dir}",
        "hive.metastore.warehouse.dir": config.warehouse.as_uri(),
    }
