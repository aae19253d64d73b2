"""The recorder of Hive's insert-only golden directories: `tests/golden_plain/VERSION/CASE`.

    python -m tools.golden_plain [--version 4.0.1] [--zone America/New_York]
        [--format avro]

The file golden_plain.txt has the cases. A step is a HiveQL statement, in which `{t}` stands for the
case's table, `{stored}` for its format and `{only}` for the properties of an insert-only table, or
one of these:

    !fail statement         aborts, its files stay
    !compact minor|major
    !convert                make the table insert-only
    !stray                  copy a file to the table's root, and to a second name beside it
    !load SOURCE_TABLE      LOAD DATA of another table's files
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tests.judges.golden_history import ALL
from tests.judges.golden_plain import FORMATS, GOLDEN_PLAIN, NEW_YORK
from tests.support.cases import cases_of
from tools.golden import convert, copy_table, engine_of, fail, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.golden import Engine

_DATABASE: Final = "g"
_INSERT_ONLY: Final = "'transactional'='true', 'transactional_properties'='insert_only'"
_CASES: Final = Path(__file__).with_suffix(".txt")
# Avro's map keys must be strings.
_OF_AVRO: Final = {"map<int,": "map<string,", "map(1,": "map('1',", "map(2,": "map('2',"}
_WITH_ZONE: Final = ("types", "ancient")
"""The cases that store instants."""


def _cases(format_: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the steps of each case of a format."""
    for head, below in cases_of(_CASES):
        name, *formats = head.split()
        if format_ in formats:
            text = below.replace("{stored}", FORMATS[format_]).replace("{only}", _INSERT_ONLY)
            for key, string in _OF_AVRO.items() if format_ == "avro" else ():
                text = text.replace(key, string)
            # A step begins after four blanks; a line with more blanks continues the step.
            steps = re.split(r"\n {4}(?! )", f"\n{text}")[1:]
            yield name, [" ".join(step.split()) for step in steps]


def _run(engine: Engine, table: str, steps: Sequence[str]) -> None:
    for step in steps:
        word, _, rest = step.partition(" ")
        match word:
            case "!fail":
                fail(engine, rest)
            case "!compact":
                kind: Literal["minor", "major"] = "minor" if rest == "minor" else "major"
                engine.compact(table, None, kind)
            case "!convert":
                convert(engine, table, _INSERT_ONLY)
            case "!stray":
                root = Path(engine.describe(table)["location"])
                file = next(p for p in sorted(root.rglob("0*")) if p.is_file())
                shutil.copy(file, root / "000005_0")
                shutil.copy(file, file.parent / "named_otherwise.bin")
            case "!load":
                load(engine, rest, f"into table {table}")
            case _:
                engine.execute(step)


def _record(engine: Engine, version: str, name: str, steps: Sequence[str]) -> None:
    table = f"{_DATABASE}.of_{name}"
    _run(engine, table, [step.replace("{t}", table) for step in steps])
    facts, rows = engine.describe(table), engine.rows(table)
    folder = GOLDEN_PLAIN / version / name
    partitions = copy_table(facts, folder)
    case = {
        "columns": facts["columns"],
        "partitions": partitions,
        "valid_write_id_list": facts["valid_write_id_list"],
        "valid_txn_list": facts["valid_txn_list"],
        "steps": steps,
        "rows": rows,
    }
    text = json.dumps(case, indent=1, ensure_ascii=False)
    (folder / "case.json").write_text(f"{text}\n")
    print(f"{version}/{name}: {len(rows)} rows", flush=True)


def main() -> None:
    """Record all cases of a version in a time zone."""
    parser = argparse.ArgumentParser(description="Make golden insert-only tables with real Hive.")
    parser.add_argument("--version", choices=ALL, default=ALL[0])
    parser.add_argument("--zone", choices=("UTC", NEW_YORK), default="UTC")
    parser.add_argument("--format", choices=FORMATS, action="append", help="all by default")
    options = parser.parse_args()
    with engine_of(options.version, _DATABASE, options.zone) as engine:
        if options.zone != "UTC":
            # ORC needs no case with a zone, because it stores wall-clock times.
            for name, steps in _cases("parquet"):
                if name in _WITH_ZONE:
                    _record(engine, options.version, f"{name}_parquet_new_york", steps)
            return
        for format_ in options.format or FORMATS:
            for name, steps in _cases(format_):
                _record(engine, options.version, f"{name}_{format_}", steps)


if __name__ == "__main__":
    main()
