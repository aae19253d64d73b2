"""The recorder of the golden directories: `tests/golden/VERSION/CASE`, written and read by Hive.

    python -m tools.golden [--version 4.0.1] [CASE ...]

For each case, the recorder creates an empty table and runs the case's history
(`tests/judges/golden_history.py`) in Hive's own engine. After that, the recorder reads the rows and
the snapshot from Hive, and copies the directory. Before it writes a case, both of Hive's file
readers (row by row and vectorised) must find these rows in the directory.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from tests.judges.bare import BareReader
from tests.judges.engine import HiveJudge
from tests.judges.engine3 import Hive3Engine
from tests.judges.golden import GOLDEN, GoldenCase
from tests.judges.golden_histories import HISTORIES
from tests.judges.golden_history import ALL, History
from tests.judges.line_process import JudgeError, Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_DATABASE: Final = "golden"
_FIRST_AFTER_CONVERSION: Final = 10_000_001  # a converted table's first write ID
# Other parameters (counts, statistics, times) do not affect how to read the files.
_PARAMETERS: Final = ("bucketing_version", "transactional", "transactional_properties", "orc.")


Engine = HiveJudge | Hive3Engine


@contextmanager
def engine_of(version: str, database: str, timezone: str = "UTC") -> Iterator[Engine]:
    """Start the engine of a version of Hive, with a database."""
    with ExitStack() as stack:
        engine: Engine
        if version == "3.1.3":
            engine = stack.enter_context(Hive3Engine(timezone=timezone))
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="golden-"))
            config = LocalMetastoreConfig(
                version=version, data_dir=Path(folder) / "metastore", ends_with_parent=True
            )
            metastore = stack.enter_context(LocalMetastore(config))
            engine = stack.enter_context(HiveJudge(metastore.uri, timezone=timezone))
        engine.execute(f"create database if not exists {database}")
        yield engine


def fail(engine: Engine, sql: str) -> None:
    """Run a statement that aborts; its files stay."""
    if isinstance(engine, Hive3Engine):
        engine.abort(sql)
    else:
        engine.begin("fail", sql)
        engine.end("fail", commit=False)


def convert(engine: Engine, table: str, properties: str) -> None:
    """Make a table transactional by these properties."""
    # Hive 4.0.1 turns a managed table without transactions into an external table.
    managed = "'EXTERNAL'='FALSE', " if isinstance(engine, HiveJudge) else ""
    engine.execute(f"alter table {table} set tblproperties ({managed}{properties})")


def load(engine: Engine, source: str, how: str) -> None:
    """Load the files of another table, as in `into table t`."""
    location = engine.describe(source)["location"]
    engine.execute(f"load data inpath 'file:{location}' {how}")


def copy_table(facts: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Copy a table's files into an empty folder; return its partitions with relative locations."""
    location = Path(facts["location"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # On a local disk, the metastore's file system leaves a checksum file beside each file.
    shutil.copytree(location, folder / "table", ignore=shutil.ignore_patterns(".*.crc"))
    return [
        {**one, "location": str(Path(one["location"]).relative_to(location))}
        for one in facts["partitions"]
    ]


class GoldenError(Exception):
    """Hive's engine and readers disagree, or a step did not have the required effect."""


@dataclass(slots=True)
class Recorder:
    """A recorder of one history. Mutable, because it collects results while the steps run."""

    engine: Engine
    readers: dict[str, BareReader]
    version: str
    history: History
    _dumped: bool = field(default=False)
    _expected: list[Row] | None = field(default=None)

    @property
    def table(self) -> str:
        """The case's table."""
        return f"{_DATABASE}.of_{self.history.name}"  # a case's name may be a keyword of SQL

    def record(self) -> GoldenCase:
        """Run the steps and return the case, read back from its folder."""
        for name in (self.table, f"{self.table}_src"):
            self.engine.execute(f"drop table if exists {name}")
        for step in self.history.steps_for(self.table):
            if step.startswith("!"):
                self._special(step[1:])
            else:
                self.engine.execute(step)
        if not self._dumped:
            self._dump()
        return GoldenCase.read(self._folder)

    @property
    def _folder(self) -> Path:
        return GOLDEN / self.version / self.history.name

    def _special(self, step: str) -> None:
        word, _, rest = step.partition(" ")
        match word:
            case "compact":
                self._compact(rest)
            case "clean":
                self.engine.clean()
            case "fail":
                fail(self.engine, rest)
            case "load":
                source, _, overwrite = rest.partition(" ")
                load(self.engine, source, f"{overwrite} into table {self.table}")
            case "convert":
                convert(self.engine, self.table, "'transactional'='true'")
            case "expect":
                self._expected = self.engine.rows(self.table, with_identity=True)
            case "dump":
                self._dump()
            case _:
                self._beside(word, rest)

    def _beside(self, word: str, rest: str) -> None:
        if not isinstance(self.engine, HiveJudge):
            raise GoldenError(f"!{word} requires Hive 4.0.1")
        name, _, sql = rest.partition(" ")
        match word:
            case "begin":
                self.engine.begin(name, sql)
            case "commit" | "abort":
                self.engine.end(name, commit=word == "commit")
            case "stream" if name == "open":
                database, table = self.table.split(".")
                self.engine.stream("open", db=database, table=table, txns=int(sql))
            case "stream" if name == "close":
                self.engine.stream("close")
            case "stream":
                self.engine.stream("write", rows=int(sql), commit=name == "commit")
            case _:
                raise GoldenError(f"unknown step !{word}")

    def _compact(self, how: str) -> None:
        words, by_query = how.removesuffix(" by query").split(), how.endswith(" by query")
        kind: Literal["minor", "major"] = "minor" if words[0] == "minor" else "major"
        partition = words[1] if len(words) > 1 else None
        if isinstance(self.engine, Hive3Engine):
            self.engine.compact(self.table, partition, kind)
            return
        outcome = self.engine.compact(self.table, partition, kind, query_based=by_query)
        if outcome.state != "ready for cleaning":
            raise GoldenError(f"{self.table}: {outcome}")

    # The output

    def _dump(self) -> None:
        self._dumped = True
        facts = self.engine.describe(self.table)
        rows = self._expected or self.engine.rows(self.table, with_identity=True)
        location = Path(facts["location"])
        readers = self._readers(facts, rows)
        own = [readers[_reader_name(self.version, vectorized=mode)] for mode in (False, True)]
        # After `!expect`, Hive's own readers may fail.
        if any(own) and self._expected is None:
            raise GoldenError(f"{self.table}: engine and readers disagree: {readers}")
        partitions = copy_table(facts, self._folder)
        (self._folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        case = {
            "case": self.history.name,
            "note": self.history.note,
            "hive_version": self.version,
            "columns": facts["columns"],
            "partition_columns": facts["partition_columns"],
            "partitions": partitions,
            "buckets": facts["buckets"],
            "bucket_columns": facts["bucket_columns"],
            "parameters": {
                key: value
                for key, value in facts["parameters"].items()
                if key.startswith(_PARAMETERS)
            },
            "valid_write_id_list": facts["valid_write_id_list"],
            "valid_txn_list": facts["valid_txn_list"],
            "row_count": len(rows),
            "statements": self.history.steps_for(self.table),
            "readers": readers,
            "empty_directories": sorted(_empty_directories(location)),
            "snapshots": list(self._snapshots(facts)) if self.history.snapshots else [],
        }
        (self._folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")

    def _readers(self, facts: dict[str, Any], rows: list[Row]) -> dict[str, str | None]:
        """Return each file reader's error for the directory, or None if it finds the right rows."""
        width = 1 + len(facts["columns"])
        wanted = sorted(json.dumps(row[:width]) for row in rows)
        directories = [one["location"] for one in facts["partitions"]] or [facts["location"]]
        verdicts: dict[str, str | None] = {}
        for version in self.readers:
            for vectorized in (False, True):
                name = _reader_name(version, vectorized=vectorized)
                try:
                    found = [
                        json.dumps(row)
                        for directory in directories
                        for row in self._read(
                            facts, directory, version=version, vectorized=vectorized
                        )
                    ]
                except JudgeError as error:
                    verdicts[name] = error.kind
                else:
                    verdicts[name] = None if sorted(found) == wanted else "other rows"
        return verdicts

    def _read(
        self,
        facts: dict[str, Any],
        directory: str,
        *,
        version: str | None = None,
        write_ids: str | None = None,
        vectorized: bool = False,
    ) -> list[Row]:
        kinds = ",".join(f"{name}:{kind}" for name, kind in facts["columns"])
        return self.readers[version or self.version].read(
            directory,
            write_ids or facts["valid_write_id_list"],
            f"struct<{kinds}>",
            txns=facts["valid_txn_list"],
            buckets=facts["buckets"],
            vectorized=vectorized,
        )

    def _snapshots(self, facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the rows at every lower high watermark, then with each single write ID aborted."""
        name, high_text, no_open, _, aborted = (facts["valid_write_id_list"] + ":").split(":")[:5]
        high, known = int(high_text), [int(one) for one in aborted.split(",") if one]
        first = 1 if high < _FIRST_AFTER_CONVERSION else _FIRST_AFTER_CONVERSION
        for lower in range(first - 1, high):
            gone = ",".join(str(one) for one in known if one <= lower)
            yield self._snapshot(facts, f"{name}:{lower}:{no_open}::{gone}")
        for one in range(first, high + 1):
            gone = ",".join(str(each) for each in sorted({*known, one}))
            yield self._snapshot(facts, f"{name}:{high}:{no_open}::{gone}")

    def _snapshot(self, facts: dict[str, Any], write_ids: str) -> dict[str, Any]:
        try:
            rows = self._read(facts, facts["location"], write_ids=write_ids)
        except JudgeError as error:
            if "Not enough history" not in str(error):
                raise
            return {"valid_write_id_list": write_ids, "rows": None}
        vectorized = self._read(facts, facts["location"], write_ids=write_ids, vectorized=True)
        if rows != vectorized:
            raise GoldenError(f"{self.table} {write_ids}: {rows} by row, {vectorized} vectorised")
        return {"valid_write_id_list": write_ids, "rows": rows}


def _reader_name(version: str, *, vectorized: bool) -> str:
    return f"{version} {'vectorised' if vectorized else 'row'}"


def _empty_directories(root: Path) -> Iterator[str]:
    for folder in (root, *root.rglob("*")):
        if folder.is_dir() and not any(folder.iterdir()):
            yield str(folder.relative_to(root))


def _record_all(version: str, histories: Sequence[History]) -> list[str]:
    """Record the cases of one version, and return the names of those that failed."""
    failures: list[str] = []
    with (
        engine_of(version, _DATABASE) as engine,
        BareReader("4.0.1") as reader_4,
        BareReader("3.1.3") as reader_3,
    ):
        readers = {"4.0.1": reader_4, "3.1.3": reader_3}
        for history in histories:
            failures += _record(Recorder(engine, readers, version, history))
    return failures


def _record(recorder: Recorder) -> list[str]:
    name = f"{recorder.version}/{recorder.history.name}"
    try:
        case = recorder.record()
    except (JudgeError, GoldenError) as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return [name]
    print(f"{name}: {len(case.rows)} rows, {case.write_ids}", flush=True)
    return []


def main() -> int:
    """Record the named cases, or all of them."""
    parser = argparse.ArgumentParser(description="Make the golden directories with real Hive.")
    parser.add_argument("--version", choices=ALL)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    failures: list[str] = []
    for version in (options.version,) if options.version else ALL:
        wanted = [
            history
            for history in HISTORIES
            if version in history.versions and (not options.cases or history.name in options.cases)
        ]
        failures += _record_all(version, wanted)
    if failures:
        print(f"failed: {', '.join(failures)}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
