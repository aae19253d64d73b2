"""Hive's engines read what transactions of several statements leave, with our identities."""

from __future__ import annotations

import uuid
from typing import Any, Final

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.jobs import maintenance, statements
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.storage.stores.listing import list_table
from tests.judges.bare import BareReader
from tests.judges.engine import HiveJudge
from tests.support.spark_lab import Lab
from tests.support.transaction_lives import COLUMNS, NAMES, Life, identities, run

# Seeds, and how many statements each transaction has.
LIVES: Final = (
    (2, (3, 5)),
    pytest.param(2, (3, 5, 4), marks=pytest.mark.long),
    pytest.param(1, (3, 5, 4), marks=pytest.mark.long),
)


def check_hive(life: Life, judge: HiveJudge) -> None:
    for name, rows in life.tables.items():
        full = life.name(name)
        assert sorted(map(tuple, judge.rows(full))) == sorted(rows), name
        if name != "log":
            check_identities(life.lab, name, judge)


def check_identities(lab: Lab, name: str, judge: HiveJudge) -> None:
    columns = "row__id.writeid, row__id.bucketid, row__id.rowid, id, v, p"
    found = judge.execute(f"select {columns} from {lab.db}.{name}")
    theirs = sorted((tuple(row[:3]), tuple(row[3:])) for row in found)
    ours = sorted((place[-3:], row) for place, row in identities(lab, name))
    assert theirs == ours, name


def check_bare(life: Life, readers: tuple[BareReader, ...]) -> None:
    """Hive's own ORC readers, of both versions, vectorized and not."""
    for name in ("t", "u"):
        table, snapshot = life.lab.info(name), life.lab.snapshot(name)
        schema = f"struct<{','.join(f'{c.name}:{c.type}' for c in table.columns)}>"
        for reader in readers:
            for vectorized in (False, True):
                found: list[Any] = []
                for info in life.lab.client.list_partitions(table):
                    state = resolve(
                        list_table(info.location), snapshot.write_ids(table.ref), snapshot.txns
                    )
                    assert not any("_v" in d.text for d in state.directories)
                    rows = reader.read(
                        info.location.removeprefix("file:"),
                        snapshot.write_ids(table.ref).text(),
                        schema,
                        txns=snapshot.txns.text(),
                        buckets=table.num_buckets or -1,
                        vectorized=vectorized,
                    )
                    keys = [int(str(v)) for v in info.name.values]
                    found += [(*row[1:], *keys) for row in rows]
                assert sorted(found) == sorted(life.tables[name]), (reader.version, vectorized)


@pytest.mark.promise("W8")
@pytest.mark.parametrize(("seed", "counts"), LIVES)
def test_hive_and_its_readers_return_our_rows_after_random_transactions(
    lab4: Lab,
    seed: int,
    counts: tuple[int, ...],
    hive_judge: HiveJudge,
    bare_reader_4: BareReader,
    bare_reader_3: BareReader,
) -> None:
    life = Life(lab4, seed, partitioned=seed % 2 == 0, buckets=2 if seed % 2 else 0)
    for count in counts:
        run(life, count)
        check_hive(life, hive_judge)
        check_bare(life, (bare_reader_4, bare_reader_3))
    # Hive hits the rows of one statement alone (HIVE-16832).
    name = life.name("t")
    hive_judge.execute(f"delete from {name} where id % 2 = 0")
    life.tables["t"] = [row for row in life.tables["t"] if row[0] % 2]
    check_hive(life, hive_judge)
    life.check()


def test_hives_compaction_keeps_the_rows_of_a_transaction_with_several_statements(
    lab4: Lab, hive_judge: HiveJudge
) -> None:
    """Rows that a later statement of the same transaction has deleted or updated stay so."""
    for kind in ("minor", "major"):
        table = made(lab4)
        hive_judge.compact(f"{lab4.db}.{table}", None, kind)
        hive_judge.clean()
        check_identities(lab4, table, hive_judge)
        assert lab4.rows(table) == [(1, 11, 1), (3, 3, 3)]


def test_hive_reads_our_minor_compaction_of_a_transaction_with_several_statements(
    lab4: Lab, hive_judge: HiveJudge
) -> None:
    """Of one write ID Hive 4 looks for deletes in later statements, which a compaction has none."""
    table = made(lab4, parameters={ONLY_HIVE_4_READS: "true"})
    lab4.compact(table, maintenance.CompactionChoice.MINOR)
    assert lab4.rows(table) == [(1, 11, 1), (3, 3, 3)]
    assert sorted(hive_judge.rows(f"{lab4.db}.{table}")) == [[1, 11, 1], [3, 3, 3]]
    check_identities(lab4, table, hive_judge)


def made(lab: Lab, **options: Any) -> str:  # noqa: ANN401
    """A table that one transaction has written: inserted into, updated, and deleted from."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    lab.table(name, COLUMNS, **options)
    full = f"{lab.db}.{name}"
    source = statements.SourceSpec(values=((1, 1, 1), (2, 2, 2)), columns=NAMES)
    more = statements.SourceSpec(values=((3, 3, 3),), columns=NAMES)
    lab.run(
        statements.TransactionSpec(
            statements=(
                statements.InsertSpec(target=full, source=source),
                statements.UpdateSpec(target=full, set={"v": "v + 10"}),
                statements.DeleteSpec(target=full, where="id = 2"),
                statements.InsertSpec(target=full, source=more),
            )
        )
    )
    return name
