"""Conversions that are killed, overtaken or disturbed, with a fake metastore and real files.

Lines of text stand for rows: a reader of the table sees the lines of its live files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_hiveacid.arrow.compaction import compact_in_process
from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import AttemptId, TxnId, WriteId
from airflow_hiveacid.format.records import Owner, Reader
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import (
    READS_ORIGINALS,
    Column,
    FileFormat,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.maintenance import (
    CleanSpec,
    CompactionChoice,
    CompactSpec,
    ConversionTarget,
)
from airflow_hiveacid.maintenance.clean import Cleaner
from airflow_hiveacid.maintenance.conversion_survey import ConversionSurvey, WayBack
from airflow_hiveacid.maintenance.overview import Overview
from airflow_hiveacid.maintenance.ownership import take_ownership
from airflow_hiveacid.metastore.catalog import STATISTICS_FLAG, NewTable
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.transactions.readers import possible_readers
from airflow_hiveacid.plan.conversion import KINDS, ConversionOutcome
from airflow_hiveacid.spark.maintenance.convert import Converter
from airflow_hiveacid.spark.writing.spreading import RowDigest
from airflow_hiveacid.storage.stores import conversion_note
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.stores.filesystem import move as move_file
from airflow_hiveacid.storage.stores.table_notes import note_owner
from airflow_hiveacid.versions import keeping
from airflow_hiveacid.versions.history import history_of
from airflow_hiveacid.versions.keeping import make_tag
from airflow_hiveacid.versions.restoring import differing_now
from airflow_hiveacid.watch.new_data import new_data
from tests.contract.fake_client import FakeClient
from tests.support.steps import act_after, act_before, at, raises
from tests.support.terms import job_terms
from tests.unit.arrow.lake import Lake
from tests.unit.lake.lakes import Warehouse
from tests.unit.spark.maintenance.lines import Lines

FULL, ONLY, FLAT = ConversionTarget
REF = TableRef("default", "t")
FIRST, SECOND = "1-00c0ffee0001", "2-00c0ffee0002"


class KilledError(BaseException):
    """The end of a process."""


def nothing(_: str) -> None:
    pass


@dataclass(frozen=True)
class World:
    """A flat table of three files, and who may come across it."""

    client: FakeClient
    root: Path

    def make(self, type_: str = "int", **how: Any) -> None:  # noqa: ANN401 - of NewTable
        columns = (Column(name="id", type=type_),)
        kind = TransactionalKind.NONE
        self.client.create_table(
            NewTable(ref=REF, columns=columns, location=f"file:{self.root}", kind=kind, **how)
        )
        self.client.set_table_parameters(REF, {"EXTERNAL": None})

    def convert(
        self,
        to: ConversionTarget,
        attempt: str = FIRST,
        on_step: Callable[[str], None] = nothing,
        job: str = "job",
    ) -> ConversionOutcome:
        client = self.client.clone()
        return Converter(
            rows=Lines(client),
            client=client,
            ref=REF,
            to=to,
            terms=job_terms(
                job, lock_timeout_s=0.2, attempt=AttemptId.parse(attempt), on_step=on_step
            ),
        ).convert()

    def prepare(self, to: ConversionTarget) -> None:
        """Make the table such that it can be converted to a kind."""
        if to is FLAT:
            self.convert(ONLY)

    def kill(self, to: ConversionTarget, step: str, **options: str) -> None:
        """Convert, and die at a step: nothing is undone, and the metastore gives up the rest."""
        with pytest.MonkeyPatch.context() as dead:
            dead.setattr(WayBack, "undo", lambda *_: None)
            with pytest.raises(KilledError):
                self.convert(to, on_step=at(step, raises(KilledError())), **options)
        self.client.server.forget_empty_transactions()

    def kill_while_moving(self, to: ConversionTarget, moves: int) -> None:
        """Convert, and die after this number of moves."""
        done = iter(range(moves))

        def move(*paths: Any) -> None:  # noqa: ANN401 - of the real function
            if next(done, None) is None:
                raise KilledError
            move_file(*paths)

        with pytest.MonkeyPatch.context() as dead:
            dead.setattr(WayBack, "undo_own", lambda *_: None)
            dead.setattr(conversion_note, "move", move)
            dead.setattr(conversion_note, "side_by_side", lambda do, items: [*map(do, items)])
            with pytest.raises(KilledError):
                self.convert(to)
        self.abort_all()
        self.client.server.forget_empty_transactions()

    def abort_all(self) -> None:
        for txn_id in self.client.valid_txns().open:
            self.client.abort_txn(txn_id)

    def insert(self, row: str, directory: str = "delta_{0:07d}_{0:07d}_0000") -> str:
        txn_id = self.client.open_txn()
        name = directory.format(self.client.allocate_write_id(txn_id, REF))
        self.put(f"{name}/000000_0", row)
        self.client.commit_txn(txn_id)
        return name

    def put(self, path: str, row: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(f"{row}\n")

    def insert_again(self, moved: list[Path]) -> None:
        """Do what the error advises; an insert stands for LOAD DATA."""
        (self.root / "_hiveacid/_conversion.json").unlink()
        for path in moved:
            row = path.read_text().strip()
            path.unlink()
            self.insert(row)

    def add_part(self, value: str) -> None:
        name = PartitionName(("p",), (value,))
        places = {name: f"file:{self.root}/{name}"}
        self.client.add_partitions(self.client.get_table(REF), [name], locations=places)

    def clean(self) -> None:
        table = self.client.get_table(REF)
        (whole,) = self.client.list_partitions(table)
        spec = CleanSpec.of_table(str(REF), retention_s=0.0, orphan_age_s=0.0)
        overview = Overview.of(self.client, table)
        cleaner = Cleaner(
            client=self.client, table=table, spec=spec, on_step=nothing, overview=overview
        )
        cleaner.clean(whole)

    @property
    def rows(self) -> list[str]:
        table = self.client.get_table(REF)
        write_ids = self.client.valid_write_ids([REF], self.client.valid_txns())[REF]
        return Lines(self.client).of(table, write_ids)

    @property
    def kind(self) -> str:
        kind = self.client.get_table(REF).kind
        return next(to.value for to, made in KINDS.items() if made is kind)

    @property
    def has_note(self) -> bool:
        return (self.root / "_hiveacid/_conversion.json").exists()


@pytest.fixture
def world(client: FakeClient, tmp_path: Path) -> World:
    root = tmp_path / "t"
    root.mkdir()
    world = World(client, root)
    world.make()
    for number in range(3):
        world.put(f"00000{number}_0", f"r{number}")
    return world


OLD = ["r0", "r1", "r2"]


def test_a_clone_of_the_metastore_converts_nothing_in_the_directory_of_the_original(
    world: World,
) -> None:
    take_ownership(world.client, world.client.get_table(REF))
    original, world.client.server.metastore_id = world.client.metastore_id, "clone"
    for to in (FULL, ONLY):
        with pytest.raises(errors.OtherOwnerError, match=f"of the metastore {original}"):
            world.convert(to)
    world.client.server.metastore_id = original
    world.convert(ONLY)
    assert (world.kind, world.rows) == (ONLY.value, OLD)


def test_a_partition_in_the_directory_of_another_metastore_is_not_converted(
    client: FakeClient, tmp_path: Path
) -> None:
    world = World(client, tmp_path / "t")
    (tmp_path / "other/p=1").mkdir(parents=True)
    world.root.mkdir()
    world.make(partition_columns=(Column(name="p", type="int"),))
    owner = Owner(metastore="original", table=REF, table_id="1")
    note_owner(f"file:{tmp_path}/other", owner)
    name = PartitionName(("p",), ("1",))
    places = {name: f"file:{tmp_path}/other/p=1"}
    client.add_partitions(client.get_table(REF), [name], locations=places)
    with pytest.raises(errors.OtherOwnerError, match="of the metastore original"):
        world.convert(ONLY)


@pytest.mark.parametrize("step", ["noted", "moved", "switched", "verified"])
@pytest.mark.parametrize("to", [ONLY, FLAT])
def test_a_plan_names_a_killed_conversion(world: World, to: ConversionTarget, step: str) -> None:
    world.kill(ONLY, step)
    (first,) = ConversionSurvey(client=world.client, ref=REF, to=to).plan().steps
    assert first.startswith("an earlier conversion to insert_only was interrupted")


@pytest.mark.parametrize("step", ["noted", "moved", "switched", "verified", "done"])
def test_a_retry_completes_a_killed_conversion_without_loss(world: World, step: str) -> None:
    for to in (ONLY, FLAT):
        world.kill(to, step)
        assert world.convert(to, SECOND).done
        assert (world.kind, world.rows, world.has_note) == (to.value, OLD, False)
        assert not world.convert(to, SECOND).done


@pytest.mark.parametrize("to", [FULL, ONLY, FLAT])
def test_a_conversion_does_not_delay_the_cleaning_of_other_tables(
    world: World, to: ConversionTarget
) -> None:
    world.prepare(to)
    found: dict[str, tuple[Reader, ...]] = {}

    def look(step: str) -> None:
        other = TableRef("default", "other")
        found[step] = possible_readers(world.client, other, world.client.valid_txns())

    world.convert(to, SECOND, look)
    assert not any(found[step] for step in ("excluded", "verified", "switched"))


def test_cleaning_after_a_killed_conversion_removes_no_rows(world: World) -> None:
    """Its transaction is aborted, but not the write ID of the delta that holds the rows."""
    world.kill(ONLY, "switched")
    world.insert("new")
    world.clean()
    assert world.rows == ["new", *OLD]


@pytest.mark.parametrize("to", [ONLY, FLAT])
def test_a_killed_conversion_is_neither_undone_nor_finished_if_rows_were_written_since(
    world: World, to: ConversionTarget
) -> None:
    world.kill(ONLY, "switched")
    world.insert("new")
    to_compact = CompactSpec.of_table(str(REF), choice=CompactionChoice.MAJOR)
    table, server = world.client.get_table(REF), world.client.server
    lake = Lake(server=server, clock=server.clock, table=table)
    with pytest.raises(errors.CompactionNotDoneError, match=f"convert {REF} --to insert_only`"):
        compact_in_process(lake.job(to_compact))
    with pytest.raises(
        errors.ConversionRefusedError, match="delta_0000002_0000002_0000 was written after an"
    ) as caught:
        world.convert(to, SECOND)
    assert f"check the table's rows, and remove {ConversionNote.uri(table.location)}" in str(
        caught.value
    )
    assert (world.kind, world.rows) == ("insert_only", ["new", *OLD])
    ConversionNote.remove(table.location)
    assert world.convert(to, SECOND).after == to.value
    assert (world.kind, world.rows) == (to.value, ["new", *OLD])


def test_flat_files_added_after_a_killed_conversion_are_not_hidden(world: World) -> None:
    world.convert(ONLY)
    world.kill(FLAT, "switched")
    world.put("000000_0_copy_1", "new")
    with pytest.raises(
        errors.ConversionRefusedError, match="000000_0_copy_1 was written or removed"
    ):
        world.convert(ONLY, SECOND)
    assert (world.kind, world.rows) == ("flat", ["new", *OLD])


def test_a_base_added_after_a_killed_conversion_hides_no_rows(world: World) -> None:
    """The base of a compaction that missed the old rows would be read as if it had them."""
    world.convert(ONLY)
    world.kill(FLAT, "moved")
    shutil.rmtree(world.root / world.insert("new"))
    world.put("base_0000003/000000_0", "new")
    with pytest.raises(errors.ConversionRefusedError) as caught:
        world.convert(FLAT, SECOND)
    assert "base_0000003 was written after" in str(caught.value)
    moved = sorted(world.root.glob("0*"))
    assert [path.name for path in moved] == ["000000_0", "000001_0", "000002_0"]
    assert all(f"file:{path}" in str(caught.value) for path in moved)
    world.insert_again(moved)
    assert world.rows == ["new", *OLD]


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_compacted_delta_added_after_a_killed_conversion_hides_no_rows(
    world: World, *, is_cleaned: bool
) -> None:
    world.convert(ONLY)
    for row in ("r5", "r6"):
        world.insert(row)
    world.kill_while_moving(FLAT, 2)
    deltas = sorted(world.root.glob("delta_*"))
    for number, file in enumerate(sorted(world.root.glob("delta_*/*"))):
        world.put(f"delta_0000001_0000003/{number:06d}_0", file.read_text().strip())
    for delta in deltas if is_cleaned else ():
        shutil.rmtree(delta)
    files = sorted(world.root.rglob("*"))
    with pytest.raises(errors.ConversionRefusedError, match="delta_0000001_0000003 was written af"):
        world.convert(FLAT, SECOND)
    assert sorted(world.root.rglob("*")) == files
    world.insert_again(sorted(world.root.glob("0*")))
    assert world.rows == [*OLD, "r5", "r6"]


@pytest.mark.parametrize("name", ["delta_0000001_0000001", "delta_0000001_0000002"])
def test_a_compacted_delta_that_begins_or_ends_with_the_moved_one_hides_no_rows(
    world: World, name: str
) -> None:
    """One transaction may write several deltas, so a compacted one may have the same range."""
    world.convert(ONLY)
    world.kill(FLAT, "moved")
    world.put(f"{name}/000000_0", "new")
    files = sorted(world.root.rglob("*"))
    with pytest.raises(errors.ConversionRefusedError, match=f"{name} was written after an"):
        world.convert(FLAT, SECOND)
    assert sorted(world.root.rglob("*")) == files


def test_a_base_hides_no_rows_in_a_location_with_a_slash_at_its_end(world: World) -> None:
    tables = world.client.server.tables
    tables[REF] = replace(tables[REF], location=f"file:{world.root}/")
    world.convert(ONLY)
    world.kill(FLAT, "moved")
    world.put("base_0000003/000000_0", "new")
    with pytest.raises(errors.ConversionRefusedError, match="base_0000003 was written after"):
        world.convert(FLAT, SECOND)
    assert len(list(world.root.glob("0*"))) == 3


def test_a_delta_of_another_statement_does_not_prevent_the_undo(world: World) -> None:
    world.convert(ONLY)
    world.insert("new")
    world.kill(FLAT, "moved")
    (world.root / "delta_0000002_0000002_0001").mkdir()
    world.convert(FLAT, SECOND)
    assert (world.kind, world.rows) == ("flat", ["new", *OLD])


def test_if_a_moved_file_is_lost_no_other_is_moved_back(world: World) -> None:
    world.convert(ONLY)
    world.kill(FLAT, "moved")
    (world.root / "000001_0").unlink()
    with pytest.raises(errors.ConversionRefusedError, match="000001_0 was removed after an ear"):
        world.convert(FLAT, SECOND)
    assert [path.name for path in sorted(world.root.glob("0*"))] == ["000000_0", "000002_0"]


@pytest.fixture
def parted(client: FakeClient, tmp_path: Path) -> World:
    """A flat table with the partitions 1 and 2."""
    world = World(client, tmp_path / "t")
    world.root.mkdir()
    world.make(partition_columns=(Column(name="p", type="int"),))
    for part in ("1", "2"):
        world.add_part(part)
        world.put(f"p={part}/000000_0", f"r{part}")
    return world


def test_a_base_in_a_new_partition_does_not_prevent_the_undo(parted: World) -> None:
    parted.convert(ONLY)
    parted.kill(FLAT, "moved")
    parted.add_part("9")
    parted.insert("r9", "p=9/base_{:07d}")
    parted.convert(FLAT, SECOND)
    assert (parted.kind, parted.rows, parted.has_note) == ("flat", ["r1", "r2", "r9"], False)


def test_a_base_in_one_partition_prevents_only_the_undo_of_this_partition(parted: World) -> None:
    parted.convert(ONLY)
    parted.kill(FLAT, "moved")
    parted.insert("r9", "p=1/base_{:07d}")
    for _ in range(2):
        with pytest.raises(errors.ConversionRefusedError) as caught:
            parted.convert(FLAT, SECOND)
        assert "p=1/base_0000003 was written after" in str(caught.value)
        assert f"deltas: file:{parted.root}/p=1/000000_0 (" in str(caught.value)
        assert "INTO TABLE default.t PARTITION (...))" in str(caught.value)
        assert "p=2" not in str(caught.value)
    note = ConversionNote.read(f"file:{parted.root}")
    assert note is not None
    assert note.not_back() == [f"file:{parted.root}/p=1/000000_0"]
    assert {each.location for each in (*note.moves, *note.emptied)} == {f"file:{parted.root}/p=1"}
    assert parted.rows == ["r2", "r9"]


@pytest.mark.parametrize("step", ["moved", "verified"])
@pytest.mark.parametrize("to", [ONLY, FLAT])
def test_a_partition_that_was_dropped_after_a_killed_conversion_is_added_again_first(
    parted: World, to: ConversionTarget, step: str
) -> None:
    parted.prepare(to)
    parted.kill(to, step)
    table, name = parted.client.get_table(REF), PartitionName(("p",), ("2",))
    parted.client.drop_partitions(table, [name])
    shutil.rmtree(parted.root / "p=2")
    with pytest.raises(errors.ConversionRefusedError, match="dropped, first add it again"):
        parted.convert(to, SECOND)
    assert parted.has_note
    parted.client.add_partitions(table, [name])
    (parted.root / "p=2").mkdir()
    if to is FLAT:  # the note is the only list of the files that are lost
        with pytest.raises(errors.ConversionRefusedError, match=r"was (written or )?removed after"):
            parted.convert(to, SECOND)
        ConversionNote.remove(table.location)
    outcome = parted.convert(to, SECOND)
    assert (outcome.after, parted.kind) == (to.value, to.value)
    assert (parted.rows, parted.has_note) == (["r1"], False)


def test_a_partition_that_was_renamed_after_a_killed_conversion_keeps_the_note(
    parted: World,
) -> None:
    parted.convert(ONLY)
    parted.kill(FLAT, "moved")
    table = parted.client.get_table(REF)
    parted.client.drop_partitions(table, [PartitionName(("p",), ("2",))])
    (parted.root / "p=2").rename(parted.root / "p=3")
    parted.client.add_partitions(table, [PartitionName(("p",), ("3",))])
    with pytest.raises(errors.ConversionRefusedError, match="give it its earlier location"):
        parted.convert(ONLY, SECOND)
    assert parted.has_note


@pytest.mark.parametrize("to", [ONLY, FLAT])
def test_readers_between_the_moves_and_the_parameters_are_led_to_the_conversion(
    world: World, to: ConversionTarget
) -> None:
    world.prepare(to)
    world.kill(to, "moved")
    lake = Warehouse(world.client.server, world.client.server.clock, world.root).connect()
    with pytest.raises(errors.UnsupportedTableError, match=f"convert {REF} --to {to.value}`"):
        lake.table(str(REF)).scan(["id"]).to_arrow()


@pytest.mark.parametrize(("to", "step"), [(ONLY, "noted"), (FLAT, "noted"), (ONLY, "done")])
def test_a_table_whose_files_are_in_place_is_listed_beside_a_note(
    world: World, to: ConversionTarget, step: str
) -> None:
    world.prepare(to)
    world.kill(to, step)
    (world.root / "_SUCCESS").touch()
    table = world.client.get_table(REF)
    (listing,) = conversion_note.list_in_place(table, world.client.list_partitions(table))
    assert sum(file.name.startswith("0") for file in listing.files) == 3
    assert (conversion_note.unfinished_conversion(table) is None) is (step == "done")
    assert conversion_note.unfinished_conversion(replace(table, table_id="another")) is None


@pytest.mark.parametrize("moves", [1, 3])
@pytest.mark.parametrize("is_undo", [False, True])
def test_a_base_hides_no_rows_while_files_are_outside_of_it(
    world: World, moves: int, *, is_undo: bool
) -> None:
    world.convert(ONLY)
    (delta,) = world.root.glob("delta_*")
    delta.rename(world.root / "base_0000001")
    if is_undo:
        world.kill(FLAT, "switched")
    world.kill_while_moving(FLAT, moves)
    client = world.client
    lake = Warehouse(client.server, client.server.clock, world.root).connect()
    table, version = client.get_table(REF), VersionSpec(number=WriteId(1))
    looks: list[Callable[[], object]] = [
        lambda: lake.table(str(REF)).scan(["id"]).to_arrow(),
        lambda: lake.table(str(REF)).scan(["id"], version=1).to_arrow(),
        lambda: differing_now(client, table, version),
        lambda: make_tag(client, table, "now", version),
        lambda: history_of(client, table),
        lambda: keeping._roots_now(client, table),
        lambda: new_data(client, REF, None, 0),
    ]
    for reads_originals in ("false", "true"):
        client.set_table_parameters(REF, {READS_ORIGINALS: reads_originals})
        for look in looks:
            with pytest.raises(errors.UnsupportedTableError, match=f"convert {REF} --to flat`"):
                look()
    assert world.convert(FLAT, SECOND).done
    assert (world.kind, world.rows) == ("flat", OLD)


def test_a_conversion_reads_an_insert_only_table_of_original_files_before_its_note(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.convert(ONLY)
    (delta,) = world.root.glob("delta_*")
    (delta / "000001_0").rename(world.root / "part-0")
    world.client.set_table_parameters(REF, {READS_ORIGINALS: "true"})

    def of_reader(lines: Lines, table: TableInfo, _: ValidWriteIdList) -> RowDigest:
        conversion_note.list_in_place(table, lines.client.list_partitions(table))
        return RowDigest(rows=3, hashes=0)

    monkeypatch.setattr(Lines, "digest", of_reader)
    world.convert(FLAT, SECOND)
    assert world.rows == OLD


@pytest.mark.parametrize("reads_originals", ["true", "false"])
def test_nothing_compacts_or_cleans_what_a_killed_conversion_has_moved(
    world: World, reads_originals: str
) -> None:
    world.convert(ONLY)
    world.kill(FLAT, "moved")
    world.client.set_table_parameters(REF, {READS_ORIGINALS: reads_originals})
    spec = CompactSpec.of_table(str(REF), choice=CompactionChoice.MAJOR)
    for _ in range(2):
        world.insert("new")
    server = world.client.server
    table = world.client.get_table(REF)
    with pytest.raises(errors.CompactionNotDoneError, match=f"convert {REF} --to flat`"):
        compact_in_process(Lake(server=server, clock=server.clock, table=table).job(spec))
    assert not (world.root / "_hiveacid/_failures").exists()
    world.put("base_0000004/000000_0", "new")  # of Hive, which does not ask us
    world.clean()
    assert len(list(world.root.glob("0*"))) == 3


def test_a_killed_conversion_to_flat_can_be_retried_after_cleaning(
    world: World,
) -> None:
    world.convert(ONLY)
    world.kill(FLAT, "moved")
    world.insert("new")
    world.clean()
    world.convert(FLAT, SECOND)
    assert (world.kind, world.rows) == ("flat", ["new", *OLD])


def test_a_file_put_into_a_flat_table_after_a_killed_conversion_is_kept(world: World) -> None:
    world.kill(ONLY, "moved")
    world.put("000000_0", "new")
    world.convert(ONLY, SECOND)
    assert world.rows == ["new", *OLD]


def test_rows_overwritten_after_a_killed_conversion_do_not_reappear(world: World) -> None:
    world.kill(ONLY, "moved")
    shutil.rmtree(next(world.root.glob("delta_*")))
    world.put("part-0", "new")
    world.convert(ONLY, SECOND)
    assert world.rows == ["new"]


@pytest.mark.parametrize("to", [ONLY, FLAT])
@pytest.mark.parametrize("step", ["noted", "moved", "switched", "verified"])
def test_a_conversion_that_lost_its_lock_leaves_the_result_of_the_newer_one_unchanged(
    world: World, to: ConversionTarget, step: str
) -> None:
    """For example a frozen process that wakes up after a newer copy has done the work."""
    if to is FLAT:
        world.convert(ONLY, job="other")

    def overtaken() -> None:
        world.convert(to, SECOND)
        assert (world.kind, world.rows, world.has_note) == (to.value, OLD, False)

    with pytest.raises(errors.HiveAcidError):
        world.convert(to, FIRST, at(step, overtaken))
    assert (world.kind, world.rows, world.has_note) == (to.value, OLD, False)


@pytest.mark.parametrize("step", ["noted", "moved", "switched", "verified"])
def test_an_undo_does_not_start_without_the_lock(world: World, step: str) -> None:
    """Its own note still exists, but a newer conversion may already be undoing it."""

    def lost() -> None:
        world.abort_all()
        raise errors.StorageError("the disk is gone")

    with pytest.raises(errors.StorageError) as caught:
        world.convert(ONLY, FIRST, at(step, lost))
    assert "The next conversion will repeat it" in caught.value.__notes__[0]
    assert world.has_note
    world.convert(ONLY, SECOND)
    assert (world.kind, world.rows) == ("insert_only", OLD)


@pytest.mark.parametrize("step", ["noted", "moved", "switched"])
@pytest.mark.parametrize("to", [ONLY, FLAT])
def test_a_conversion_stops_at_its_next_step_once_its_lock_is_lost(
    world: World, to: ConversionTarget, step: str
) -> None:
    world.prepare(to)
    before = world.kind
    after = {"noted": before, "moved": before, "switched": to.value}
    with pytest.raises(errors.TransactionAbortedError):
        world.convert(to, FIRST, at(step, world.abort_all))
    assert world.kind == after[step]
    note = ConversionNote.read(f"file:{world.root}")
    assert note is not None
    assert not note.is_verified


def test_a_conversion_that_lost_its_lock_writes_no_note(world: World) -> None:
    """It could overwrite the note of a newer conversion."""

    def abort_others(_: FakeClient, txn_id: TxnId, __: TableRef) -> None:
        for other in world.client.valid_txns().open:
            if other != txn_id:
                world.client.abort_txn(other)

    with pytest.MonkeyPatch.context() as patch:
        act_after(patch, FakeClient, "allocate_write_id", abort_others)
        with pytest.raises(errors.TransactionAbortedError):
            world.convert(ONLY)
    assert not world.has_note


@pytest.mark.parametrize("to", [FULL, ONLY, FLAT])
def test_a_conversion_is_refused_if_values_would_differ_after_it(
    world: World, to: ConversionTarget
) -> None:
    world.prepare(to)
    before = world.kind
    digest = Lines.digest

    def other(lines: Lines, table: TableInfo, write_ids: ValidWriteIdList) -> RowDigest:
        found = digest(lines, table, write_ids)
        is_before = next(t.value for t, kind in KINDS.items() if kind is table.kind) == before
        return found if is_before else RowDigest(rows=found.rows, hashes=found.hashes + 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lines, "digest", other)
        with pytest.raises(errors.ConversionRefusedError, match="values would differ"):
            world.convert(to)
    assert (world.kind, world.rows, world.has_note) == (before, OLD, False)


@pytest.mark.parametrize("to", [ONLY, FLAT])
def test_a_conversion_whose_parameters_the_metastore_ignores_is_undone(
    world: World, to: ConversionTarget
) -> None:
    world.prepare(to)
    before = world.kind
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeClient, "set_table_parameters", lambda *_: None)
        with pytest.raises(errors.ConversionRefusedError, match="did not change its kind"):
            world.convert(to)
    assert (world.kind, world.rows, world.has_note) == (before, OLD, False)


def test_an_older_copy_of_a_conversion_is_fenced_by_a_newer_copy(world: World) -> None:
    def second() -> None:
        with pytest.raises(errors.FencedError):
            world.convert(ONLY, FIRST, job="job")

    world.convert(ONLY, SECOND, at("excluded", second))
    assert (world.kind, world.rows) == ("insert_only", OLD)


def test_moving_files_stops_when_the_lock_is_lost(world: World) -> None:
    for number in range(3, 40):
        world.put(f"{number:06d}_0", f"r{number}")
    beats = 0

    def abort(*_: object) -> None:
        nonlocal beats
        if list(world.root.glob("delta_*/*")):
            beats += 1
            world.abort_all()

    with pytest.MonkeyPatch.context() as patch:
        act_before(patch, FakeClient, "heartbeat", abort)
        with pytest.raises(errors.TransactionAbortedError):
            world.convert(ONLY)
    assert beats
    assert 0 < len(list(world.root.glob("delta_*/*"))) < 40
    world.convert(ONLY, SECOND)
    assert len(world.rows) == 40


def test_an_undo_does_not_remove_a_directory_that_still_contains_a_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's move was under way when its process was considered dead."""
    world.kill(ONLY, "moved")
    delta = next(world.root.glob("delta_*"))

    def late(_: object) -> list[str]:
        world.put(f"{delta.name}/late", "late")
        return []

    monkeypatch.setattr(ConversionNote, "not_back", late)
    with pytest.raises(errors.StorageError, match="late still exists"):
        world.convert(ONLY, SECOND)
    assert (delta / "late").exists()


def test_a_file_that_was_moved_again_during_an_undo_raises_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.convert(ONLY)
    world.kill(FLAT, "moved")
    with monkeypatch.context() as patch:
        patch.setattr("airflow_hiveacid.storage.stores.conversion_note._each", lambda *_: None)
        with pytest.raises(errors.StorageError, match="was moved again"):
            world.convert(FLAT, SECOND)
    assert world.has_note
    world.convert(FLAT, SECOND)
    assert (world.kind, world.rows) == ("flat", OLD)


def test_a_finished_conversion_does_not_remove_the_note_of_the_next_one(world: World) -> None:
    """It removes its own note before it releases the lock."""
    world.convert(ONLY)

    def next_one(reached: str) -> None:
        if reached == "done":
            with pytest.raises(errors.LockNotAcquiredError):
                world.convert(ONLY, FIRST, job="another")
        if reached == "committed":
            world.kill(ONLY, "moved", job="another")

    world.convert(FLAT, FIRST, next_one)
    assert world.has_note
    world.convert(ONLY, SECOND)
    assert world.rows == OLD


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("to", [ONLY, FLAT])
def test_a_conversion_that_gets_no_answer_is_undone_and_can_be_retried(
    world: World, to: ConversionTarget, is_done: bool
) -> None:
    world.prepare(to)
    before = world.kind
    lost = errors.MetastoreUnavailableError(uris=(), method="alter_table", reason="cut off")
    world.client.server.break_next("set_table_parameters", lost, is_done=is_done)
    with pytest.raises(errors.MetastoreUnavailableError):
        world.convert(to)
    assert (world.kind, world.rows, world.has_note) == (before, OLD, False)
    world.convert(to)
    assert (world.kind, world.rows) == (to.value, OLD)


def test_a_verified_conversion_succeeds_even_if_its_transaction_is_aborted(
    world: World,
) -> None:
    assert world.convert(ONLY, FIRST, at("done", world.abort_all)).done
    assert (world.kind, world.rows) == ("insert_only", OLD)
    assert world.convert(FLAT, SECOND).done
    assert (world.rows, world.has_note) == (OLD, False)


@pytest.mark.parametrize("step", ["noted", "moved", "switched"])
def test_files_written_without_a_lock_during_a_conversion_are_not_hidden(
    world: World, step: str
) -> None:
    late = partial(world.put, "000009_0", "late")
    with pytest.raises((errors.TableChangedError, errors.ConversionRefusedError)):
        world.convert(ONLY, FIRST, at(step, late))
    assert (world.kind, world.rows) == ("flat", ["late", *OLD])


def test_a_file_added_before_the_switch_to_full_acid_stops_the_conversion(world: World) -> None:
    late = partial(world.put, "000009_0", "late")
    with pytest.raises(errors.TableChangedError):
        world.convert(FULL, FIRST, at("verified", late))
    assert world.kind == "flat"
    assert world.convert(FULL).rows == 4


def test_a_file_added_during_the_switch_to_full_acid_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = partial(world.put, "000009_0", "late")
    act_before(monkeypatch, FakeClient, "set_table_parameters", lambda *_: late())
    with pytest.raises(errors.TableChangedError) as caught:
        world.convert(FULL)
    assert caught.value.__notes__
    assert world.kind == "full_acid"


def test_a_table_that_was_once_insert_only_cannot_become_full_acid(world: World) -> None:
    """The metastore fails if it finds a write ID, with a message that helps no user."""
    world.convert(ONLY)
    world.convert(FLAT)
    with pytest.raises(errors.ConversionRefusedError, match="write IDs it remembers"):
        world.convert(FULL)
    assert (world.kind, world.rows) == ("flat", OLD)


def test_a_conversion_that_lost_its_lock_does_not_switch_to_full_acid(world: World) -> None:
    with pytest.raises(errors.TransactionAbortedError):
        world.convert(FULL, FIRST, at("verified", world.abort_all))
    assert world.kind == "flat"


def test_a_conversion_to_flat_is_refused_while_a_compaction_is_queued(world: World) -> None:
    """Its base would become duplicate rows of the flat table."""
    world.convert(ONLY)
    world.client.request_compaction(REF, None, CompactionType.MAJOR)
    with pytest.raises(errors.ConversionRefusedError, match="queued or running"):
        world.convert(FLAT)
    assert (world.kind, world.rows) == ("insert_only", OLD)


def test_a_conversion_to_flat_is_refused_while_rows_of_an_aborted_write_remain(
    world: World,
) -> None:
    world.convert(ONLY)
    txn_id = world.client.open_txn()
    write_id = world.client.allocate_write_id(txn_id, REF)
    world.put(f"delta_{write_id:07d}_{write_id:07d}_0000/000000_0", "aborted")
    world.client.abort_txn(txn_id)
    with pytest.raises(errors.ConversionRefusedError, match="compact and clean the table first"):
        world.convert(FLAT)
    assert (world.kind, world.rows, world.has_note) == ("insert_only", OLD, False)


def test_a_conversion_to_flat_removes_the_flag_of_accurate_statistics(world: World) -> None:
    world.convert(ONLY)
    world.client.set_table_parameters(REF, {STATISTICS_FLAG: "all", "numRows": "9"})
    world.convert(FLAT)
    assert STATISTICS_FLAG not in world.client.get_table(REF).parameters


def test_the_conversion_note_of_a_dropped_table_is_discarded(world: World) -> None:
    world.kill(ONLY, "moved")
    world.client.drop_table(REF)
    world.make()
    tables = world.client.server.tables
    tables[REF] = replace(tables[REF], table_id="another")  # 3.1 has only the second of its making
    world.put("000007_0", "new")
    with pytest.raises(
        errors.ConversionRefusedError, match="has a name like those of transactional tables"
    ):
        world.convert(ONLY, SECOND)
    assert [p.name for p in world.root.glob("0*")] == ["000007_0"]
    assert not world.has_note


def way_back(world: World, beats: int) -> WayBack:
    """A way back whose lock is lost after some questions."""
    left = [None] * beats

    def guard() -> None:
        if not left:
            raise errors.TransactionAbortedError(txn_id=TxnId(1), reason="gone")
        left.pop()

    survey = ConversionSurvey(client=world.client, ref=REF, to=ONLY)
    return WayBack(survey=survey, guard=guard)


@pytest.mark.parametrize("beats", [0, 1])
def test_an_undo_stops_when_the_lock_is_lost(world: World, beats: int) -> None:
    world.kill(ONLY, "switched")
    with pytest.raises(errors.TransactionAbortedError):
        way_back(world, beats).recover()
    assert world.kind == ("flat" if beats else "insert_only")
    assert len(list(world.root.glob("delta_*/*"))) == 3
    assert world.has_note
    way_back(world, 9).recover()
    assert (world.kind, world.rows, world.has_note) == ("flat", OLD, False)


def test_an_undo_of_some_partitions_that_lost_its_lock_leaves_the_note(parted: World) -> None:
    """A newer conversion may already have written another one."""
    parted.convert(ONLY)
    parted.kill(FLAT, "moved")
    parted.put("p=1/base_0000003/000000_0", "r9")
    note = ConversionNote.read(f"file:{parted.root}")
    with pytest.raises(errors.TransactionAbortedError):
        way_back(parted, 3).recover()
    assert (parted.root / "p=2/delta_0000001_0000001_0000/000000_0").exists()
    assert ConversionNote.read(f"file:{parted.root}") == note


def test_a_recovery_that_lost_its_lock_removes_no_note(world: World) -> None:
    world.kill(ONLY, "done")
    way_back(world, 0).recover()
    assert world.has_note
    way_back(world, 1).recover()
    assert not world.has_note


def test_an_attempt_undoes_only_its_own_unfinished_conversion(world: World) -> None:
    place = f"file:{world.root}"
    world.kill(ONLY, "switched")
    way_back(world, 9).undo_own(place, AttemptId.parse(SECOND))
    assert (world.kind, world.has_note) == ("insert_only", True)
    way_back(world, 9).undo_own(place, AttemptId.parse(FIRST))
    assert (world.kind, world.rows, world.has_note) == ("flat", OLD, False)
    world.kill(ONLY, "done")
    way_back(world, 9).undo_own(place, AttemptId.parse(FIRST))
    assert (world.kind, world.rows, world.has_note) == ("insert_only", OLD, True)


IN = "delta_0000001_0000001_0000"


def move(source: str, target: str, location: str = "{mine}") -> dict[str, str]:
    return {"location": location, "source": source, "target": target}


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"emptied": [move("x", "delta_1", "{victim}")]}, "victim is not a location"),
        ({"moves": [move("a", "b", "{victim}")]}, "victim is not a location"),
        ({"emptied": [move("x", "../victim")]}, "moves 'x'"),
        ({"emptied": [move("base_5", "a")]}, "moves 'base_5'"),
        ({"moves": [move("../victim/a", "000000_0")]}, "moves '../victim/a'"),
        ({"moves": [move("base_5/../../victim/a", "000000_0")]}, "victim/a' to '000000_0'"),
        ({"moves": [move("base_5/a", "../victim/a")]}, "to '../victim/a'"),
        ({"write_id": 1, "moves": [move("a", "b/a")]}, "to 'b/a'"),
        ({"write_id": 1, "moves": [move("../victim/a", f"{IN}/a")]}, "moves '../victim/a'"),
        ({"write_id": 1, "moves": [move("_hiveacid/a", f"{IN}/a")]}, "moves '_hiveacid/a'"),
        ({"undo": {"EXTERNAL": "TRUE", "serialization.lib": "x"}}, "serialization.lib"),
        ({"write_id": 77}, "has not allocated its write ID 77"),
    ],
)
@pytest.mark.parametrize("is_verified", [False, True])
def test_a_note_that_no_conversion_of_the_table_can_have_written_moves_nothing(
    world: World, tmp_path: Path, part: dict[str, object], why: str, *, is_verified: bool
) -> None:
    victim = tmp_path / "victim"
    (victim / "delta_1").mkdir(parents=True)
    (victim / "delta_1" / "a").write_text("precious")
    note = {
        "attempt": FIRST,
        "table_id": world.client.get_table(REF).table_id,
        "to": "flat",
        "undo": {},
        "moves": [],
        "emptied": [],
        "write_id": None,
        "is_verified": is_verified,
        **part,
    }
    text = json.dumps(note).replace("{victim}", f"file:{victim}")
    (world.root / "_hiveacid").mkdir()
    path = world.root / "_hiveacid" / "_conversion.json"
    path.write_text(text.replace("{mine}", f"file:{world.root}"))
    before = sorted(world.root.rglob("*"))
    with pytest.raises(
        errors.ConversionRefusedError, match=r"no conversion of it can have written"
    ) as e:
        world.convert(ONLY, SECOND)
    assert why in str(e.value)
    assert "_conversion.json" in str(e.value)
    assert (victim / "delta_1" / "a").read_text() == "precious"
    assert sorted(world.root.rglob("*")) == before


@pytest.mark.parametrize(
    ("type_", "format_", "header", "why"),
    [
        ("timestamp", FileFormat.PARQUET, {}, "timestamps are instants"),
        ("uniontype<int,string>", FileFormat.ORC, {}, "uniontype<int,string> cannot be"),
        ("int", FileFormat.TEXT, {"skip.header.line.count": "1"}, "skip.header.line.count=1"),
    ],
)
def test_a_table_that_could_not_be_compacted_afterwards_is_not_converted(
    client: FakeClient,
    tmp_path: Path,
    type_: str,
    format_: FileFormat,
    header: dict[str, str],
    why: str,
) -> None:
    other = World(client, tmp_path)
    instants = pa.array([0], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": instants}), tmp_path / "000000_0")
    other.make(type_, format=format_, parameters=header)
    with pytest.raises(errors.ConversionRefusedError, match=f"not be compacted afterwards.*{why}"):
        other.convert(ONLY)
    assert other.kind == "flat"
