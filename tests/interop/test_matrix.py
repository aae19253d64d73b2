"""A part of what `make judge` does: tables of some kinds, written in turns, read by all."""

from __future__ import annotations

import pytest

from tests.judges.bare import BareReader
from tests.judges.engine import HiveJudge
from tests.proofs.matrix.course import Ground, lead
from tests.proofs.matrix.explanations import is_explained
from tests.proofs.matrix.kinds import ALTERNATING, HIVE_4, KINDS, OURS
from tests.proofs.matrix.readers import ArrowReader, BareHiveReader, HiveReader, NativeReader
from tests.proofs.matrix.writers import HiveWriter, OurWriter
from tests.support.spark_lab import Lab

SAMPLE = [
    "full ACID, partitions, 2 buckets by the first hash",
    "full ACID, partitions by date, char and decimal, some of null",
    "insert-only, Parquet, partitions of two levels",
]


@pytest.mark.promise("D12", "W18")
@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.long_cases("full ACID, partitions by date*")
def test_all_readers_read_the_same_rows_of_a_table_that_hive_and_we_write_in_turn(
    lab4: Lab, hive_judge: HiveJudge, bare_reader_3: BareReader, name: str
) -> None:
    (kind,) = [kind for kind in KINDS if kind.name == name]
    ground = Ground(
        lab=lab4,
        hive=hive_judge,
        writers={
            OURS: lambda table: OurWriter(table=table),
            HIVE_4: lambda table: HiveWriter(table=table, engine=hive_judge),
        },
        readers=[
            NativeReader(),
            ArrowReader(),
            HiveReader(hive_judge),
            BareHiveReader(bare_reader_3),
        ],
    )
    said: list[str] = []
    life = lead(ground, kind, ALTERNATING, said.append)
    assert said == []
    assert is_explained(life)
    assert life.answers[HIVE_4].right == len(life.taken)
