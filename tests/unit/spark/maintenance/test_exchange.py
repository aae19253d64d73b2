"""A full-ACID table and its flat copy exchange names; fake metastore, real files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import (
    ConversionRefusedError,
    HiveAcidError,
    LockNotAcquiredError,
    MetastoreCallError,
    MetastoreUnavailableError,
    OtherOwnerError,
    TableChangedError,
    TransactionAbortedError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.records import Owner
from airflow_hiveacid.format.table import COPY_OF, Column, TableRef, TransactionalKind
from airflow_hiveacid.jobs.metastore_statements import CreateTable, NewColumn, RenameTable
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.definitions.new_table import ensure_table
from airflow_hiveacid.metastore.definitions.statements import run_statement
from airflow_hiveacid.metastore.half_exchange import copy_mark
from airflow_hiveacid.spark.conversions import Exchange
from airflow_hiveacid.storage.stores.table_notes import note_owner
from tests.contract.fake_client import FakeClient
from tests.support.steps import at, raises
from tests.support.terms import job_terms
from tests.unit.spark.maintenance.lines import Lines

NONCE = "00c0ffee0001"
NAME = f"t__flat_{NONCE}"
REF, COPY, KEPT = (TableRef("default", name) for name in ("t", NAME, "t__acid"))
ROWS = ["r0", "r1"]
NONE, ACID, _ = TransactionalKind


class KilledError(BaseException):
    """The end of a process."""


DIE_WHEN_AWAY = at("away", raises(KilledError()))


def nothing(_: str) -> None:
    pass


@dataclass(frozen=True)
class World:
    """A table and its copy."""

    client: FakeClient
    home: Path

    def make(
        self, ref: TableRef, kind: TransactionalKind, parameters: Mapping[str, str], path: str
    ) -> None:
        columns, place = (Column(name="id", type="int"),), f"file:{self.home}/{ref.name}"
        self.client.create_table(
            NewTable(ref=ref, columns=columns, location=place, kind=kind, parameters=parameters)
        )
        if kind is NONE:
            self.client.set_table_parameters(ref, {"EXTERNAL": None})
        self.put(f"{ref.name}/{path}", " ".join(ROWS))

    def copy(self) -> None:
        mark = copy_mark(REF, self.client.get_table(REF))
        self.make(COPY, NONE, {COPY_OF: mark}, "000000_0")

    def put(self, path: str, row: str) -> None:
        (self.home / path).parent.mkdir(parents=True, exist_ok=True)
        (self.home / path).write_text(f"{row}\n")

    def exchange(self, on_step: Callable[[str], None] = nothing) -> Exchange:
        client = self.client.clone()
        attempt = AttemptId.parse(f"1-{NONCE}")
        terms = job_terms(lock_timeout_s=0.2, attempt=attempt, on_step=on_step)
        return Exchange(client=client, rows=Lines(client), ref=REF, terms=terms)

    def leave_half_way(self) -> None:
        """Be killed between the two renames."""
        with pytest.raises(KilledError):
            self.exchange(DIE_WHEN_AWAY).leave()

    def come_back(self, on_step: Callable[[str], None] = nothing) -> int:
        exchange = self.exchange(on_step)
        kept = exchange.way_back(self.client.get_table(REF))
        assert kept is not None
        return exchange.come_back(kept)

    @property
    def kinds(self) -> dict[str, TransactionalKind]:
        refs = [TableRef("default", name) for name in self.client.list_tables("default")]
        return {ref.name: self.client.get_table(ref).kind for ref in refs}

    def rows(self, ref: TableRef = REF) -> list[str]:
        table = self.client.get_table(ref)
        write_ids = self.client.valid_write_ids([ref], self.client.valid_txns())[ref]
        return Lines(self.client).of(table, write_ids)


@pytest.fixture
def world(client: FakeClient, tmp_path: Path) -> World:
    world = World(client, tmp_path)
    world.make(REF, ACID, {}, "delta_0000001_0000001_0000/bucket_00000")
    txn_id = client.open_txn()
    client.allocate_write_id(txn_id, REF)
    client.commit_txn(txn_id)
    return world


@pytest.mark.parametrize(("is_back", "ref"), [(False, REF), (True, REF), (True, KEPT)])
def test_a_clone_exchanges_nothing_with_the_original(
    world: World, ref: TableRef, *, is_back: bool
) -> None:
    if is_back:
        world.copy()
        world.exchange().leave()
    kinds, noted = world.kinds, world.client.get_table(ref)
    note_owner(noted.location, Owner(metastore="original", table=REF, table_id="1"))
    with pytest.raises(OtherOwnerError, match="of the metastore original"):
        world.come_back() if is_back else world.exchange().make_room()
    assert world.kinds == kinds


def test_a_table_and_its_flat_copy_exchange_names_and_exchange_them_back(world: World) -> None:
    before = world.client.get_table(REF)
    world.exchange().make_room()
    world.copy()
    assert world.exchange().leave() == 2
    assert world.kinds == {"t": NONE, "t__acid": ACID}
    assert world.rows() == world.rows(KEPT) == ROWS
    assert world.come_back() == 2
    assert world.client.get_table(REF) == before
    assert (world.kinds, world.rows()) == ({"t": ACID}, ROWS)


@pytest.mark.parametrize("step", ["compared", "away", "exchanged"])
def test_a_run_killed_between_the_renames_is_recovered_without_loss_by_the_next_run(
    world: World, step: str
) -> None:
    die = at(step, raises(KilledError()))
    world.copy()
    with pytest.raises(KilledError):
        world.exchange(die).leave()
    world.exchange().recover()
    expected = {"t": ACID, NAME: NONE} if step == "compared" else {"t": NONE, "t__acid": ACID}
    assert (world.kinds, world.rows()) == (expected, ROWS)
    if step == "compared":
        world.exchange().leave()
    with pytest.raises(KilledError):
        world.come_back(die)
    world.exchange().recover()
    assert world.rows() == ROWS
    if step != "exchanged":
        world.come_back()
    assert world.kinds["t"] is ACID
    assert world.rows() == ROWS


@pytest.mark.parametrize("is_back", [False, True])
def test_between_the_renames_the_table_is_not_said_to_be_unknown_and_not_created(
    world: World, *, is_back: bool
) -> None:
    world.copy()
    if is_back:
        world.exchange().leave()
    with pytest.raises(KilledError):
        world.come_back(DIE_WHEN_AWAY) if is_back else world.exchange(DIE_WHEN_AWAY).leave()
    client = world.client
    create = CreateTable(target=str(REF), columns=(NewColumn(name="id", type="int"),))
    new = NewTable(ref=REF, columns=(Column(name="id", type="int"),), kind=ACID)
    asks: list[Callable[[], object]] = [
        lambda: client.get_table(REF),
        lambda: client.get_source(REF),
        lambda: ensure_table(client, new),
        lambda: run_statement(client, create, job_terms()),
        lambda: run_statement(
            client, RenameTable(target=str(KEPT), new_name=str(REF)), job_terms()
        ),
    ]
    for ask in asks:
        with pytest.raises(UnsupportedTableError, match=f"convert {REF} --to flat`"):
            ask()
    world.exchange().recover()
    assert (world.kinds, world.rows()) == ({"t": NONE, "t__acid": ACID}, ROWS)


def _make_two_copies(world: World) -> TableRef:
    """Make the copy of a job that died, then commit a row, then make a whole copy."""
    mark = copy_mark(REF, world.client.get_table(REF))
    old = TableRef("default", "t__flat_00aaaaaaaaaa")
    world.make(old, NONE, {COPY_OF: mark}, "000000_0")
    world.put("t/delta_0000001_0000001_0000/bucket_00001", "r2")
    world.copy()
    world.put(f"{NAME}/000001_0", "r2")
    return old


def test_of_several_copies_the_one_with_the_rows_of_the_table_gets_its_name(world: World) -> None:
    old = _make_two_copies(world)
    world.leave_half_way()
    world.exchange().recover()
    assert world.rows() == [*ROWS, "r2"]
    assert world.kinds == {"t": NONE, "t__acid": ACID, old.name: NONE}
    world.exchange().recover()
    assert world.kinds == {"t": NONE, "t__acid": ACID}


def test_a_copy_without_rows_of_the_table_does_not_get_its_name(world: World) -> None:
    old = _make_two_copies(world)
    world.leave_half_way()
    world.client.drop_table(COPY)
    with pytest.raises(ConversionRefusedError, match=f"{old} does not have the rows of {KEPT}"):
        world.exchange().recover()
    assert world.kinds == {"t__acid": ACID, old.name: NONE}
    world.client.server.rename(KEPT, REF)  # as the words advise
    world.exchange().recover()
    world.exchange().make_room()
    assert world.kinds == {"t": ACID}


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_recovery_that_lost_its_lock_neither_renames_nor_drops(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_renamed: bool
) -> None:
    _make_two_copies(world)
    if is_renamed:
        world.exchange().leave()
    else:
        world.leave_half_way()
    kinds, list_tables = world.kinds, FakeClient.list_tables

    def lost(client: FakeClient, db: str) -> tuple[str, ...]:
        for txn_id in world.client.valid_txns().open:
            world.client.abort_txn(txn_id)
        return list_tables(client, db)

    with monkeypatch.context() as patch:
        patch.setattr(FakeClient, "list_tables", lost)
        with pytest.raises(TransactionAbortedError):
            world.exchange().recover()
    assert world.kinds == kinds


def test_an_unfinished_copy_beside_a_flat_one_does_not_make_the_name_look_free(
    world: World,
) -> None:
    mark, only = copy_mark(REF, world.client.get_table(REF)), TransactionalKind.INSERT_ONLY
    half = TableRef("default", "t__flat_00aaaaaaaaaa")
    world.make(half, only, {COPY_OF: mark}, "delta_0000001_0000001_0000/000000_0")
    world.copy()
    world.leave_half_way()
    with pytest.raises(UnsupportedTableError, match=f"convert {REF} --to flat`"):
        world.client.get_table(REF)
    world.exchange().recover()
    assert (world.kinds["t"], world.rows()) == (NONE, ROWS)


def test_a_copy_of_a_job_that_came_too_late_is_dropped(world: World) -> None:
    _make_two_copies(world)
    world.exchange().leave()
    world.exchange().recover()
    assert (world.kinds, world.rows()) == ({"t": NONE, "t__acid": ACID}, [*ROWS, "r2"])
    assert world.come_back() == 3


def test_a_failure_while_looking_for_an_unfinished_exchange_is_not_a_missing_table(
    world: World,
) -> None:
    world.copy()
    world.leave_half_way()
    error = MetastoreUnavailableError(uris=(), method="list_tables", reason="cut off")
    world.client.server.break_next("list_tables", error, is_done=False)
    with pytest.raises(MetastoreUnavailableError):
        world.client.get_table(REF)


def test_an_exchange_is_refused_if_rows_were_written_after_the_copy_was_made(world: World) -> None:
    world.copy()
    txn_id = world.client.open_txn()
    world.client.allocate_write_id(txn_id, REF)
    world.put("t/delta_0000002_0000002_0000/bucket_00000", "r2")
    world.client.commit_txn(txn_id)
    with pytest.raises(TableChangedError):
        world.exchange().leave()
    assert world.kinds == {"t": ACID, NAME: NONE}
    world.exchange().make_room()
    assert world.kinds == {"t": ACID}


def test_the_way_back_is_refused_if_rows_were_written_to_the_flat_table(world: World) -> None:
    world.copy()
    world.exchange().leave()
    world.put(f"{NAME}/000000_0_copy_1", "new")
    with pytest.raises(ConversionRefusedError, match="the rows of the two tables differ"):
        world.come_back()
    assert (world.kinds["t"], world.rows()) == (NONE, ["new", *ROWS])


def test_tables_that_are_not_copies_of_ours_are_neither_renamed_nor_dropped(world: World) -> None:
    world.make(COPY, NONE, {COPY_OF: "default.t#another"}, "000000_0")
    with pytest.raises(ConversionRefusedError, match="is not a flat copy of it"):
        world.exchange().leave()
    world.exchange().make_room()
    world.make(KEPT, ACID, {}, "delta_0000001_0000001_0000/bucket_00000")
    with pytest.raises(ConversionRefusedError, match=r"a table default[.]t__acid already exists"):
        world.exchange().make_room()
    assert world.kinds == {"t": ACID, NAME: NONE, "t__acid": ACID}
    world.client.drop_table(REF)
    world.exchange().recover()
    assert world.kinds == {NAME: NONE, "t__acid": ACID}


def test_an_unfinished_copy_is_removed_and_never_gets_the_name_of_the_table(world: World) -> None:
    half = TableRef("default", f"{NAME}__ctas_0123456789_{NONCE}")
    mark = copy_mark(REF, world.client.get_table(REF))
    world.make(half, TransactionalKind.INSERT_ONLY, {COPY_OF: mark}, "delta_1_1_0/000000_0")
    world.client.server.rename(REF, KEPT)
    world.exchange().recover()
    assert world.kinds == {half.name: TransactionalKind.INSERT_ONLY, "t__acid": ACID}
    world.client.server.rename(KEPT, REF)
    world.exchange().make_room()
    assert world.kinds == {"t": ACID}


def test_a_copy_that_a_user_renamed_is_not_dropped(world: World) -> None:
    world.copy()
    world.client.server.rename(COPY, TableRef("default", "t__flat_yesterday"))
    world.exchange().make_room()
    world.client.server.rename(REF, KEPT)
    world.exchange().recover()
    assert world.kinds == {"t__flat_yesterday": NONE, "t__acid": ACID}


def test_a_table_that_lost_its_copy_mark_has_no_way_back(world: World) -> None:
    world.copy()
    world.exchange().leave()
    world.client.set_table_parameters(REF, {COPY_OF: None})
    assert world.exchange().way_back(world.client.get_table(REF)) is None


def test_names_are_exchanged_only_while_the_lock_is_held(world: World) -> None:
    world.copy()

    def lost(reached: str) -> None:
        if reached == "compared":
            for txn_id in world.client.valid_txns().open:
                world.client.abort_txn(txn_id)

    with pytest.raises(TransactionAbortedError):
        world.exchange(lost).leave()
    assert world.kinds == {"t": ACID, NAME: NONE}

    def second(reached: str) -> None:
        if reached == "compared":
            other = Exchange(
                client=world.client.clone(),
                rows=Lines(world.client),
                ref=REF,
                terms=job_terms("another", lock_timeout_s=0.2),
            )
            with pytest.raises(LockNotAcquiredError):
                other.leave()

    world.exchange(second).leave()
    assert world.kinds == {"t": NONE, "t__acid": ACID}


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("number", [1, 2])
def test_recovery_after_a_failed_rename_keeps_all_rows_under_the_name_of_the_table(
    world: World, number: int, is_done: bool
) -> None:
    world.copy()
    server = world.client.server
    errors: list[HiveAcidError] = [
        MetastoreUnavailableError(uris=(), method="alter_table", reason="cut off"),
        MetastoreCallError(method="alter_table", reason="no"),
    ]
    error = errors[0] if is_done else errors[1]
    break_it = partial(server.break_next, "change_table", error, is_done=is_done)
    plant = at("compared" if number == 1 else "away", break_it)
    if (number, is_done) == (2, True):
        assert world.exchange(plant).leave() == 2
    else:
        with pytest.raises(type(error)):
            world.exchange(plant).leave()
    if not is_done:
        assert world.kinds == {"t": ACID, NAME: NONE}
    world.exchange().recover()
    assert world.rows() == ROWS
    assert len(world.kinds) == 2


def test_a_second_rename_without_an_answer_is_left_to_the_recovery(world: World) -> None:
    """The rename may still arrive, after a rename back."""
    world.copy()
    error = MetastoreUnavailableError(uris=(), method="alter_table", reason="cut off")
    plant = partial(world.client.server.break_next, "change_table", error, is_done=False)
    with pytest.raises(MetastoreUnavailableError):
        world.exchange(at("away", plant)).leave()
    assert world.kinds == {NAME: NONE, "t__acid": ACID}
    world.exchange().recover()
    assert (world.kinds, world.rows()) == ({"t": NONE, "t__acid": ACID}, ROWS)


def test_a_foreign_table_created_between_the_renames_is_kept(world: World) -> None:
    world.copy()
    other = TableRef("default", "other")

    def made() -> None:
        world.make(other, ACID, {}, "another")
        world.client.server.rename(other, REF)

    with pytest.raises(MetastoreCallError):
        world.exchange(at("away", made)).leave()
    for check in (world.exchange().recover, world.exchange().make_room):
        with pytest.raises(ConversionRefusedError, match=f"in {KEPT} and {COPY}, and a new table"):
            check()
    assert world.kinds == {"t": ACID, "t__acid": ACID, NAME: NONE}
    assert world.rows(KEPT) == world.rows(COPY) == ROWS


def test_a_copy_that_is_not_yet_flat_does_not_get_the_name_of_the_table(world: World) -> None:
    mark = copy_mark(REF, world.client.get_table(REF))
    only = TransactionalKind.INSERT_ONLY
    world.make(COPY, only, {COPY_OF: mark}, "delta_0000001_0000001_0000/000000_0")
    with pytest.raises(ConversionRefusedError, match="is not a flat copy of it"):
        world.exchange().leave()
    assert world.kinds == {"t": ACID, NAME: only}
