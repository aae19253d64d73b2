"""The rows of docs/airflow-kills.json, what was seen in each play, and docs/airflow-kills.md.

A run replaces the rows of the plays that it has run and leaves the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.support.documents import DOCS, table_line

JSON: Final = DOCS / "airflow-kills.json"
PAGE: Final = DOCS / "airflow-kills.md"

_HEAD: Final = """# Airflow: when one of its processes is killed

`make airflow` writes this page. The program starts PostgreSQL, a metastore 4.0.1, and Airflow's API
server, scheduler with LocalExecutor, DAG processor and triggerer. Airflow has one worker slot. The
program kills processes with SIGKILL and starts them again. Each test case is called a *play*.
`make airflow PLAYS="triggerer watch"` runs only the plays `triggerer` and `watch`.

YARN and `spark-submit` are simulated. The program decides when an application ends. At its end, the
application commits one transaction on its task's table in the real metastore.

* *Applications* is the number that YARN has received, and *killed* is the number that YARN was
  asked to kill.
* *Commits* is the number of committed write IDs of the tasks' tables.
* *Events* are asset events of `compaction_asset`, and *runs* are the DAG runs that these events
  started.
* *Seconds* depend on the machine. Other programs kept both of the machine's cores busy.

The plays `examples` and `warehouse` kill nothing, and run real Spark jobs on this machine.
`warehouse` is not among the plays of `make airflow`, because it takes long:
`WAREHOUSE_MINUTES=60 WAREHOUSE_TABLES=200 make airflow PLAYS=warehouse`. It runs
`compact_warehouse` every 3 minutes while three writers change the tables: our storage code, our
Spark jobs, and Hive. Hive 4.0.1's initiator, worker and cleaner run, too. Our reader and Trino read
random tables all the time and compare them with a model; Hive reads all tables at the end. A
*round* is a run of the task `compact`. The deltas of every partition are counted once a minute. A
round leaves a partition at its threshold if it was there before the round began, and was not
compacted until the round's end. All programs share two cores, so a round may take minutes.
Meanwhile a busy table, which is written every ten seconds, reaches its threshold again.

| play | what happens | seen | as promised | seconds |
|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One play: what happens, what was seen, and why that violates a promise (empty: it does not).

    Several rows of a play differ in `title`.
    """

    play: str
    title: str
    seen: str
    violation: str = ""
    seconds: float = 0.0


def read(file: Path = JSON) -> list[Row]:
    """Return the rows of earlier runs."""
    return [Row(**one) for one in json.loads(file.read_text())] if file.exists() else []


def keep(
    rows: Iterable[Row], order: Iterable[str], *, file: Path = JSON, page: Path = PAGE
) -> None:
    """Replace the rows of these rows' plays, and write both files."""
    new = list(rows)
    plays = {row.play for row in new}
    kept = [*(row for row in read(file) if row.play not in plays), *new]
    plays_in_order = list(order)
    kept.sort(key=lambda row: plays_in_order.index(row.play))
    file.write_text(json.dumps([asdict(row) for row in kept], indent=1) + "\n")
    page.write_text(page_of(kept, plays_in_order))


def page_of(rows: Sequence[Row], order: Iterable[str]) -> str:
    """Return the page, with the plays that have not run yet below the table."""
    have_run = {row.play for row in rows}
    missing = ", ".join(f"`{play}`" for play in order if play not in have_run)
    tail = f"\nNot run yet: {missing}.\n" if missing else ""
    return _HEAD + "".join(_line(row) for row in rows) + tail


def _line(row: Row) -> str:
    promised = f"**no**: {row.violation}" if row.violation else "yes"
    return table_line(row.play, row.title, row.seen, promised, f"{row.seconds:.0f}") + "\n"
