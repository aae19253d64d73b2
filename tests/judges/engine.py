"""Knows how to run statements in Hive 4.0.1's own engine against a metastore.

The engine runs as one process on local map-reduce, so that its answer owes nothing to code of
ours: it reads, updates, deletes, compacts and cleans tables that we wrote, and the reverse.

Example:
    with HiveJudge("thrift://127.0.0.1:9083") as hive:
        hive.execute("delete from db.t where id = 7")
        hive.compact("db.t", kind="major")
        rows = hive.rows("db.t")
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from tests.judges.bare import identity_key
from tests.judges.installation import Judge, installation
from tests.judges.line_process import JudgeError, LineProcess, Row
from tests.judges.site import CONF, QUERY_BASED_COMPACTION, hive_site


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOutcome:
    """What became of one request after Hive's worker ran once.

    Attributes:
        request_id: In the metastore's queue.
        state: As SHOW COMPACTIONS says it: ready for cleaning, succeeded, refused, failed, ...
        message: The worker's, or None.
    """

    request_id: int
    state: str
    message: str | None


class SqlEngine:
    """What every engine can do. Not for several threads at once."""

    def __init__(self, process: LineProcess, work_dir: Path) -> None:
        self._process = process
        self._work_dir = work_dir

    def execute(self, sql: str) -> list[Row]:
        """Runs one statement, without a semicolon, and returns its rows in the engine's order.

        Values as `JsonRow.java` describes them: decimals, dates and timestamps are strings,
        binary is hex, maps are sorted pairs.

        Raises:
            JudgeError: The engine refused or failed the statement.
        """
        return self._process.request({"op": "execute", "sql": sql})[0]

    def close(self) -> None:
        """Ends the process."""
        self._process.close()
        shutil.rmtree(self._work_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Engine(SqlEngine):
    """What Hive's engines of both versions can do besides."""

    def rows(self, table: str, *, with_identity: bool = False) -> list[Row]:
        """Returns a table's rows, partition columns last, sorted.

        With identity each row begins with `{"writeid": .., "bucketid": .., "rowid": ..}` and the
        rows are sorted by it; without, by their JSON text.
        """
        if with_identity:
            found = self.execute(f"select row__id, t.* from {table} t")
            return sorted(found, key=identity_key)
        return sorted(self.execute(f"select * from {table}"), key=json.dumps)

    def describe(self, table: str) -> dict[str, Any]:
        """Returns what the metastore says: location, columns, partition_columns, partitions,
        buckets, bucket_columns, parameters, valid_write_id_list, valid_txn_list.
        """
        return self._process.request({"op": "describe", **table_names(table)})[1]


class HiveJudge(Engine):
    """Hive 4.0.1's engine in a process of its own. Not for several threads at once.

    Args:
        metastore_uri: `thrift://HOST:PORT` of a 4.0.1 metastore.
        settings: Hive settings that win over those of `site.py`.
        jars: What it needs besides, such as clients of other stores.
    """

    def __init__(
        self,
        metastore_uri: str,
        *,
        timezone: str = "UTC",
        settings: Mapping[str, str] | None = None,
        jars: Sequence[Path] = (),
        heap_mb: int = 1024,
    ) -> None:
        work_dir = Path(tempfile.mkdtemp(prefix="hive-judge-"))
        site = hive_site(work_dir, {"hive.metastore.uris": metastore_uri, **(settings or {})})
        (work_dir / "hive-site.xml").write_text(site)
        process = LineProcess(
            "judge.EngineServer",
            java=Judge.HIVE_4.tool("java"),
            class_path=installation(Judge.HIVE_4).class_path(work_dir, CONF, last=jars),
            work_dir=work_dir,
            timezone=timezone,
            heap_mb=heap_mb,
        )
        super().__init__(process, work_dir)

    def compact(
        self,
        table: str,
        partition: str | None = None,
        kind: Literal["minor", "major"] = "major",
        *,
        query_based: bool = False,
    ) -> CompactionOutcome:
        """Queues a compaction and runs Hive's worker once, on this request alone.

        The partition is `p=x/q=y`, or None. `query_based` means by a query in Tez's local mode
        instead of map-reduce.

        Raises:
            JudgeError: The compaction failed.
        """
        answer = self._process.request(
            {
                "op": "compact",
                **table_names(table),
                "partition": partition,
                "kind": kind,
                "settings": QUERY_BASED_COMPACTION if query_based else {},
            }
        )[1]
        outcome = CompactionOutcome(
            request_id=answer["id"], state=answer["state"], message=answer.get("message")
        )
        if outcome.state in {"failed", "initiated", "working"}:
            raise JudgeError(f"compaction of {table} ended as {outcome}")
        return outcome

    def work(self) -> None:
        """Runs Hive's worker once, on the oldest request that any worker may take, if any."""
        self._process.request({"op": "work"})

    def clean(self) -> int:
        """Runs Hive's cleaner over everything ready for cleaning; returns the number of tasks."""
        tasks: int = self._process.request({"op": "clean"})[1]["tasks"]
        return tasks

    def begin(self, name: str, sql: str) -> None:
        """Runs a write in a session of its own up to, not including, its commit."""
        self._process.request({"op": "begin", "name": name, "sql": sql})

    def end(self, name: str, *, commit: bool) -> None:
        """Lets the write that `begin` left open commit, or fail and abort."""
        self._process.request({"op": "end", "name": name, "commit": commit})

    def stream(self, step: Literal["open", "write", "close"], **facts: object) -> None:
        """Drives one batch of streamed transactions: see `StreamBatch.java`."""
        self._process.request({"op": "stream", "step": step, **facts})


def table_names(table: str) -> dict[str, str]:
    """Splits `db.table` into the fields of a request."""
    db, _, name = table.rpartition(".")
    return {"db": db or "default", "table": name}
