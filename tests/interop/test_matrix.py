"""A part of what `make judge` does: tables of some kinds, written in turns, read by all."""

from __future__ import annotations

import pytest

from tests.judges.bare import BareReader
from tests.judges.engine import HiveJudge
from tests.proofs.matrix import course, explanations, kinds, readers, writers
from tests.support.spark_lab import Lab

SAMPLE = [
    "full ACID, partitions, 2 buckets by the first hash",
    "full ACID, partitions by date, char and decimal, some of null",
    "insert-only, Parquet, partitions of two levels",
]


@pytest.mark.promise("D12", "W18")
@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.long_cases("full ACID, partitions by date*", "insert-only*")
def test_all_readers_read_the_same_rows_of_a_table_that_hive_and_we_write_in_turn(
    lab4: Lab, hive_judge: HiveJudge, bare_reader_3: BareReader, name: str
) -> None:
    (kind,) = [kind for kind in kinds.KINDS if kind.name == name]
    ground = course.Ground(
        lab=lab4,
        hive=hive_judge,
        writers={
            kinds.OURS: lambda table: writers.OurWriter(table=table),
            kinds.HIVE_4: lambda table: writers.HiveWriter(table=table, engine=hive_judge),
        },
        readers=[
            readers.NativeReader(),
            readers.ArrowReader(),
            readers.HiveReader(hive_judge),
            readers.BareHiveReader(bare_reader_3),
        ],
    )
    said: list[str] = []
    life = course.lead(ground, kind, kinds.ALTERNATING, said.append)
    assert said == []
    assert explanations.is_explained(life)
    assert life.answers[kinds.HIVE_4].right == len(life.taken)
