"""Changes of a table of hundreds of partitions, with types of all sorts and NULL everywhere."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from airflow_hiveacid.format.change_range import ChangeRange, segments_of
from airflow_hiveacid.format.errors import ChangesGoneError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import up_to
from airflow_hiveacid.format.table import (
    Column,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.reading import FILE_BITS
from airflow_hiveacid.reading.arrow_scan import IS_BORN, VERSION, ChangePiece, scan_changes
from airflow_hiveacid.spark.reading.changed_files import ChangedFiles
from airflow_hiveacid.storage.stores.listing import list_table
from tests.proofs.histories.wide import Told, TypedWorld, WideLife, expected
from tests.proofs.histories.world import World

PARTITIONS: Final = 310
SEEDS: Final = [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))]
SPARK: Final[Any] = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A range as a job of ours reads it: what the driver plans, done piece by piece."""

    life: WideLife
    since: int
    until: int
    is_net: bool = False

    def told(self) -> list[Told]:
        """What it tells.

        Raises:
            ChangesGoneError: it cannot be told.
        """
        return sorted(
            self._row(row)
            for piece in self._pieces()
            for batch in scan_changes(piece)
            for row in batch.to_pylist()
        )

    def _row(self, row: dict[str, Any]) -> Told:
        number, *identity = row["position"].values()
        place = self._files.stretches[number >> FILE_BITS][0].name.values[0]
        columns = tuple(row[c.name] for c in TypedWorld.columns)
        return int(place or 0), row[VERSION], row[IS_BORN], tuple(identity), columns  # type: ignore[return-value]

    def _pieces(self) -> Iterator[ChangePiece]:
        files = self._files
        make = functools.partial(
            ChangePiece,
            is_net=self.is_net,
            columns=TypedWorld.columns,
            wanted=tuple(c.name for c in TypedWorld.columns),
            position="position",
        )
        yield from files._whole(make)
        yield from files._in_part(make)
        for target, file in files._files:
            if files._is_new(target, file):  # these are read by Spark
                yield make(
                    numbers=(target.number,),
                    data=(target.data,),
                    stripes=None,
                    deletes=(),
                    part=files._segment(target).part,
                    ends_with=None,
                    is_whole=True,
                )

    @functools.cached_property
    def _files(self) -> ChangedFiles:
        now = self.life.worlds[0].write_ids
        ends = (up_to(now, WriteId(w)) for w in (self.since, self.until))
        part = ChangeRange(**dict(zip(("since", "until"), ends, strict=True)))
        stretches = [
            (_info(place, world), segment)
            for place, world in enumerate(self.life.worlds)
            for segment in segments_of(
                list_table(str(world.root)),
                now,
                part,
                txns=world.txns,
                kind=TransactionalKind.FULL_ACID,
            )
        ]
        table = TableInfo(
            ref=TableRef("d", "t"),
            location=str(self.life.worlds[0].root.parent),
            columns=TypedWorld.columns,
            partition_columns=(Column(name="p", type="int"),),
            kind=TransactionalKind.FULL_ACID,
        )
        return ChangedFiles(spark=SPARK, table=table, stretches=stretches, is_net=self.is_net)


def _info(place: int, world: World) -> PartitionInfo:
    return PartitionInfo(name=PartitionName(("p",), (str(place),)), location=str(world.root))


@pytest.mark.promise("V5")
@pytest.mark.parametrize("seed", SEEDS)
def test_the_changes_of_many_partitions_match_the_model_or_are_refused(
    tmp_path: Path, seed: int
) -> None:
    life = WideLife(tmp_path / "t", seed, partitions=PARTITIONS)
    life.live()
    newest = life.newest
    told = 0
    for since, until in ((0, newest), (newest - 2, newest)):
        for is_net in (False, True):
            reading = Reading(life=life, since=since, until=until, is_net=is_net)
            try:
                found = reading.told()
            except ChangesGoneError as refused:
                assert refused.oldest > since  # noqa: PT017 - it is what it says that is looked at
                continue
            assert found == expected(life, since, until, is_net=is_net), (since, until)
            told += bool(found)
    assert told >= 2
