"""Streams by loops in Python: exactly once after deaths, repeats and copies, in several tables."""

from __future__ import annotations

import json
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    ConfigurationError,
    EarlierRunUnknownError,
    FencedError,
    InputError,
    InsertOnlyTableError,
    MetastoreCallError,
    MetastoreUnavailableError,
    SourceKeyError,
    TransactionAbortedError,
    UnknownColumnError,
)
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import Column, TableRef, TransactionalKind
from airflow_hiveacid.jobs.job import JobStatus, RowCounts
from airflow_hiveacid.jobs.statements import StreamTable
from airflow_hiveacid.lake.connection import Lake
from airflow_hiveacid.lake.streams import StreamWriter
from airflow_hiveacid.metastore.port import MetastorePort, TxnState
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.writing.streams import LastBatch, Stream, StreamReport
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.lake.lakes import DAY, T, Warehouse, ids, rows

U = "default.u"
BOTH = (StreamTable(table=T), StreamTable(table=U, keys=("id",)))


class DeadError(BaseException):
    """The process of a copy was killed: it makes no further call."""


class Mortal(FakeMetastore):
    """A server whose client dies before or after its nth call; a dead client calls in vain."""

    left: int | None = None
    cut_at_commit: bool | None = None
    is_dead = False
    at_call: Callable[[], None] | None = None

    def take_fault(self, method: str, *, is_done: bool) -> None:
        if method == "commit_txn" and self.cut_at_commit is is_done:
            self.cut_at_commit = None
            lost = MetastoreUnavailableError(uris=("thrift://h:1",), method="x", reason="cut off")
            for _ in range(99):
                self.break_next("valid_txns", lost, is_done=False)
            raise lost
        super().take_fault(method, is_done=is_done)
        if self.is_dead:
            raise DeadError
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            if self.at_call is None:
                self.is_dead = True
                raise DeadError
            self.at_call()
        else:
            self.left -= 1

    @contextmanager
    def dying_at(self, call: int) -> Iterator[None]:
        """Kill the client at this call, if it makes as many; then let another one live."""
        self.left, self.is_dead = call, False
        try:
            yield
        except DeadError:
            pass
        finally:
            self.left, self.is_dead = None, False


@pytest.fixture
def server(request: pytest.FixtureRequest, clock: ManualClock) -> Mortal:
    generation = getattr(request, "param", MetastoreGeneration.V4)
    return Mortal(generation, clock, txn_timeout_s=20.0)


def writer(lake: Lake, name: str = "clicks") -> StreamWriter:
    return lake.stream_writer(T, stream=name)


@pytest.fixture
def one(warehouse: Warehouse, lake: Lake) -> StreamWriter:
    """A writer of the stream `clicks`, before its first batch."""
    warehouse.create()
    return writer(lake)


def notes(warehouse: Warehouse, name: str = "s") -> list[str]:
    """The states of the ledger's entries of a table."""
    hidden = warehouse.root / name / "_hiveacid"
    found = (p.name for p in hidden.iterdir() if p.name.endswith((".done.json", ".prepared.json")))
    return sorted(n.split(".")[-2] for n in found)


def test_a_writer_continues_after_the_last_committed_batch(one: StreamWriter, lake: Lake) -> None:
    assert one.offsets is None
    result = one.write(rows(1, 2), {"p": 2})
    assert (result.status, result.rows) == (JobStatus.COMMITTED, RowCounts(inserted=2))
    assert result.details["batch"] == {"number": 1, "offsets": {"p": 2}}
    one.write(rows(3), {"p": 3})
    assert one.offsets == {"p": 3}
    assert writer(lake).offsets == writer(lake).offsets == {"p": 3}
    assert writer(lake, "another").offsets is None
    assert ids(lake.table(T)) == [1, 2, 3]


def test_a_repeated_batch_is_applied_once(one: StreamWriter, lake: Lake) -> None:
    one.write(rows(1), [7])
    again = one.write(rows(1), [7])
    assert (again.was_done_before, ids(lake.table(T))) == (True, [1])


def test_offsets_that_are_equal_only_in_python_are_of_two_batches(
    one: StreamWriter, lake: Lake
) -> None:
    one.write(rows(1), {"p": 0, "q": 1})
    assert not one.write(rows(2), {"p": False, "q": 1}).was_done_before
    assert one.write(rows(2), {"q": 1, "p": False}).was_done_before
    assert ids(lake.table(T)) == [1, 2]


def test_a_number_that_a_source_returns_in_another_form_is_the_same_position(
    warehouse: Warehouse, lake: Lake
) -> None:
    """Pandas makes floats of whole numbers if one of them is missing."""
    warehouse.create()
    writer(lake).write(rows(1), {"p": [5, 1e16], "q": 0.5})
    assert writer(lake).write(rows(1), {"p": [5.0, 10**16], "q": 0.5}).was_done_before
    assert not writer(lake).write(rows(2), {"p": [5, 1e16], "q": 0.25}).was_done_before
    assert ids(lake.table(T)) == [1, 2]


@pytest.mark.parametrize("offsets", [{1: 2, "1": 3}, [{"p": {True: 1, "true": 1}}]])
def test_offsets_with_keys_that_are_equal_as_json_are_refused(
    one: StreamWriter, lake: Lake, offsets: object
) -> None:
    with pytest.raises(ConfigurationError, match=r"are ambiguous: .* keys '(1|true)'; give"):
        one.write(rows(1), offsets)  # type: ignore[arg-type]  # unfit on purpose
    assert (one.offsets, ids(lake.table(T))) == (None, [])


def test_a_batch_is_not_repeated_with_a_reader_that_was_read(
    warehouse: Warehouse, lake: Lake, server: Mortal
) -> None:
    warehouse.create()
    one, reader = writer(lake), rows(1).to_reader()
    failure = MetastoreCallError(method="allocate_write_id", reason="internal error")
    server.break_next("allocate_write_id", failure, is_done=False)
    with pytest.raises(MetastoreCallError):
        one.write(reader, 1)
    with pytest.raises(ConfigurationError, match="make its rows again"):
        one.write(reader, 1)
    one.write(rows(1), 1)
    assert (one.write(rows(), 2).status, ids(lake.table(T))) == (JobStatus.NOTHING_TO_DO, [1])


def test_a_batch_without_rows_commits_nothing(one: StreamWriter, server: FakeMetastore) -> None:
    before = len(server.txns)
    assert one.write(rows(), {"p": 5}).status is JobStatus.NOTHING_TO_DO
    assert (one.offsets, len(server.txns)) == (None, before)


def test_the_ledger_keeps_few_entries_of_a_stream(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create()
    lake.table(T).append(rows(0))
    one = writer(lake)
    for number in range(1, 6):
        one.write(rows(number), number)
    assert notes(warehouse) == ["done", "done", "prepared", "prepared"]


def test_one_certain_entry_of_the_last_batch_is_enough(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create()
    warehouse.create(U)
    lake.stream_writer(BOTH, stream="s").write({T: rows(1)}, 1)
    (done,) = (warehouse.root / "s" / "_hiveacid").glob("*.done.json")
    done.unlink()  # as if the process had died between the two ledgers
    (delta,) = (warehouse.root / "s").glob("delta_*")
    delta.rename(delta.with_name("base_0000002"))  # as Hive's compactor does
    assert lake.stream_writer(BOTH, stream="s").offsets == 1


def entry(warehouse: Warehouse, name: str = "s", number: int = 1) -> tuple[Path, dict[str, Any]]:
    """The file of a batch's confirmed entry in a table's ledger, and what it says."""
    found = (warehouse.root / name / "_hiveacid").glob(f"_*.{number}.*.done.json")
    (path,) = found
    return path, json.loads(path.read_text())


def forged(result: str, offsets: int) -> str:
    """A batch's result with other offsets."""
    told = json.loads(result)
    return json.dumps({**told, "details": {"batch": {"number": 9, "offsets": offsets}}})


@pytest.mark.parametrize("is_changed", [True, False])
def test_an_entry_of_a_program_that_may_write_to_one_table_skips_no_batch(
    warehouse: Warehouse, lake: Lake, *, is_changed: bool
) -> None:
    warehouse.create()
    warehouse.create(U)
    lake.stream_writer(BOTH, stream="s").write({T: rows(1), U: rows(1)}, 1)
    path, told = entry(warehouse)
    told["result"] = forged(told["result"], 8)
    if not is_changed:  # but added, as the next batch
        told["generation"] = 2
        path = path.with_name(path.name.replace(".1.", ".2.", 1))
    path.write_text(json.dumps(told))
    with pytest.raises(EarlierRunUnknownError, match=r"of default\.u has no entry") as caught:
        lake.stream_writer(BOTH, stream="s")
    assert f"_hiveacid/{path.name}" in str(caught.value)
    path.unlink()
    assert lake.stream_writer(BOTH, stream="s").offsets == 1


@pytest.mark.parametrize("ahead_s", [-30, 0, 30])
def test_a_stream_continues_after_one_of_its_tables_was_made_again(
    warehouse: Warehouse, lake: Lake, clock: ManualClock, ahead_s: float
) -> None:
    clock.advance(time.time() - warehouse.server.now_s() + ahead_s)  # entries have writers' times
    warehouse.create()
    warehouse.create(U)
    lake.stream_writer(BOTH, stream="s").write({T: rows(1), U: rows(1)}, 1)
    clock.advance(10)
    FakeClient(warehouse.server).drop_table(TableRef.parse(U))
    shutil.rmtree(warehouse.root / "u")
    warehouse.create(U)
    one = lake.stream_writer(BOTH, stream="s")
    assert one.offsets == 1
    one.write({T: rows(2), U: rows(2)}, 2)
    assert lake.stream_writer(BOTH, stream="s").offsets == 2
    assert (ids(lake.table(T)), ids(lake.table(U))) == ([1, 2], [2])


def test_an_older_table_that_lacks_the_last_batch_does_not_join_a_stream(
    warehouse: Warehouse, lake: Lake, clock: ManualClock
) -> None:
    """Nothing tells its entry in the other table from a forged one."""
    clock.advance(time.time() - warehouse.server.now_s() - 100)
    warehouse.create(U)
    warehouse.create()
    writer(lake, "s").write(rows(1), 1)
    both = (StreamTable(table=T), StreamTable(table=U))
    with pytest.raises(EarlierRunUnknownError, match=r"of default\.u has no entry"):
        lake.stream_writer(both, stream="s")
    assert writer(lake, "s").offsets == 1


def test_a_writer_looks_again_if_a_copy_has_just_written_a_batch(
    warehouse: Warehouse, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.create()
    warehouse.create(U)
    old, real, left = lake.stream_writer(BOTH, stream="s"), Ledger.entries, [1, 2]

    def then_a_batch(ledger: Ledger, job_key: str) -> tuple[LedgerEntry, ...]:
        found = real(ledger, job_key)
        if left and ledger.location.endswith("/s"):
            number = left.pop(0)
            monkeypatch.setattr(Ledger, "entries", real)
            old.write({T: rows(number), U: rows(number)}, number)
            monkeypatch.setattr(Ledger, "entries", then_a_batch)
        return found

    monkeypatch.setattr(Ledger, "entries", then_a_batch)
    assert lake.stream_writer(BOTH, stream="s").offsets == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda told: {**told, "warnings": []},
        lambda told: {k: v for k, v in told.items() if k == "details"},
        lambda told: {**told, "version": 2, "status": "partly", "rows": "many"},
    ],
)
def test_a_stream_continues_after_a_batch_of_another_release(
    warehouse: Warehouse, lake: Lake, change: Callable[[Any], Any]
) -> None:
    warehouse.create()
    writer(lake).write(rows(1), {"p": 1})
    for path in (warehouse.root / "s" / "_hiveacid").glob("_*.1.*.json"):
        told = json.loads(path.read_text())
        told["result"] = json.dumps(change(json.loads(told["result"])))
        path.write_text(json.dumps(told))
    assert writer(lake).offsets == {"p": 1}


@pytest.mark.parametrize(
    "result",
    ["", "[", "[" * 100_000, "null", "[]", "{}"]
    + [json.dumps({"details": d}) for d in ({}, [], "ab", {"batch": None}, {"batch": "ab"})]
    + [json.dumps({"details": {"batch": batch}}) for batch in (5, [], {}, {"number": 1})],
)
def test_an_entry_without_offsets_names_itself_and_what_to_do(
    warehouse: Warehouse, lake: Lake, result: str
) -> None:
    warehouse.create()
    writer(lake).write(rows(1), 1)
    path, told = entry(warehouse)
    path.write_text(json.dumps({**told, "result": result}))
    with pytest.raises(EarlierRunUnknownError, match="does not say where the stream") as caught:
        writer(lake)
    assert {"default.s:", f"_hiveacid/{path.name}"} <= {*str(caught.value).split()}
    assert "Remove the entry if another program wrote it" in str(caught.value)
    path.unlink()
    assert writer(lake).offsets == 1


@pytest.mark.parametrize("number", [1 << 62, (1 << 63) - 1, 1 << 63])
def test_a_number_that_no_stream_reaches_is_refused_before_anything_is_written(
    warehouse: Warehouse, lake: Lake, number: int
) -> None:
    warehouse.create()
    writer(lake).write(rows(1), 1)
    path, told = entry(warehouse)
    (prepared,) = path.parent.glob("_*.1.*.prepared.json")
    prepared.unlink()
    path.unlink()
    bad = path.with_name(path.name.replace(".1.", f".{number}.", 1))
    bad.write_text(json.dumps({**told, "generation": number}))
    before = len(warehouse.server.txns)
    with pytest.raises(EarlierRunUnknownError, match=f"_hiveacid/{bad.name}"):
        writer(lake)
    assert len(warehouse.server.txns) == before


def test_a_name_of_a_stream_forges_no_line_of_a_log(
    warehouse: Warehouse, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.create()
    caplog.set_level(logging.INFO)
    old = writer(lake, "a\x1b[31m\nforged")
    writer(lake, "a\x1b[31m\nforged")
    with pytest.raises(FencedError, match=r"stream/a\\x1b\[31m\\nforged was"):
        old.write(rows(1), 1)
    shown = r"opened txn_id=1 tables=default.s job_key=stream/a\x1b[31m\nforged"
    assert shown in caplog.messages
    assert not any("\n" in message for message in caplog.messages)


def test_a_newer_writer_stops_an_older_one(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create()
    old = writer(lake)
    old.write(rows(1), 1)
    new = writer(lake)
    with pytest.raises(FencedError, match="newer"):
        old.write(rows(2), 2)
    assert new.offsets == 1
    new.write(rows(2), 2)
    with pytest.raises(FencedError, match="newer"):
        old.write(rows(2), 2)
    new.write(rows(3), 3)
    assert ids(lake.table(T)) == [1, 2, 3]


def test_a_writer_starts_although_an_older_one_has_just_committed_a_batch(
    warehouse: Warehouse, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.create()
    old, last, left = writer(lake), Stream.last, [1, 2]

    def then_a_batch(stream: Stream, client: MetastorePort) -> LastBatch:
        found = last(stream, client)
        if left:
            number = left.pop(0)
            old.write(rows(number), number)
        return found

    monkeypatch.setattr(Stream, "last", then_a_batch)
    new = writer(lake)
    with pytest.raises(FencedError, match="newer"):
        old.write(rows(3), 3)
    assert new.offsets == 2
    new.write(rows(3), 3)
    assert ids(lake.table(T)) == [1, 2, 3]


def test_a_stream_whose_last_batch_is_in_doubt_names_its_way_out(
    warehouse: Warehouse, lake: Lake
) -> None:
    warehouse.create()
    writer(lake).write(rows(1), 1)
    (done,) = warehouse.root.glob("*/_hiveacid/*.done.json")
    done.unlink()
    (delta,) = warehouse.root.glob("*/delta_*")
    delta.rename(delta.with_name("base_0000002"))
    with pytest.raises(EarlierRunUnknownError, match="with another name for the stream"):
        writer(lake)


@pytest.mark.parametrize("server", MetastoreGeneration, indirect=True)
@pytest.mark.parametrize("first", [0, 6])
def test_a_killed_loop_applies_every_row_once_wherever_it_dies(
    warehouse: Warehouse, server: Mortal, first: int
) -> None:
    warehouse.create()
    warehouse.create(U, partition_columns=DAY)
    (warehouse.root / "u" / "day=2026-01-01").mkdir()  # a metastore makes it with the partition
    done = 0
    for call in range(first, 168, 12):
        with server.dying_at(call), warehouse.connect() as lake:
            stream = lake.stream_writer(BOTH, stream="clicks")
            position = int(str(stream.offsets or 0))
            for number in range(position + 1, position + 3):
                stream.write(_batch(number), number)
                done = number
    with warehouse.connect() as lake:
        position = int(str(lake.stream_writer(BOTH, stream="clicks").offsets))
        assert position >= done > 3
        assert ids(lake.table(T)) == list(range(1, position + 1))
        found = lake.table(U).scan(["id", "name"]).to_arrow().sort_by("id").to_pylist()
        newest = sorted(range(position - 2, position + 1), key=lambda number: number % 3)
        assert [row["name"] for row in found] == list(map(str, newest))


def _batch(number: int) -> Mapping[str, pa.Table]:
    change = rows(number % 3, name=str(number)).append_column(
        "day", pa.array(["2026-01-01"]).cast(pa.date32())
    )
    return {T: rows(number), U: change}


@pytest.mark.parametrize("call", range(0, 80, 8))
def test_two_copies_never_apply_a_row_twice_wherever_the_newer_one_starts(
    warehouse: Warehouse, server: Mortal, call: int
) -> None:
    warehouse.create()
    with warehouse.connect() as lake, warehouse.connect() as other:
        late = []

        def start() -> None:
            server.at_call = None
            late.append(loop(other, 4))

        server.at_call, server.left = start, call
        try:
            loop(lake, 5)
        except (FencedError, TransactionAbortedError):
            loop(lake, 5)
        assert late
        assert ids(other.table(T)) == [1, 2, 3, 4, 5]


def loop(lake: Lake, last: int) -> StreamWriter:
    """Write the rows after the last committed batch."""
    stream = writer(lake)
    for number in range(int(str(stream.offsets or 0)) + 1, last + 1):
        stream.write(rows(number), number)
    return stream


def test_a_batch_is_repeated_after_the_answer_to_its_commit_was_lost(
    one: StreamWriter, lake: Lake, server: Mortal
) -> None:
    for is_done, number in ((True, 1), (False, 2)):
        server.cut_at_commit = is_done
        with pytest.raises(CommitStateUnknownError):
            one.write(rows(number), number)
        server.faults.clear()
        assert one.write(rows(number), number).was_done_before is is_done
    assert (one.offsets, ids(lake.table(T))) == (2, [1, 2])


def test_a_writer_that_waits_for_a_slow_copy_ends_its_transaction(
    warehouse: Warehouse, lake: Lake, server: Mortal
) -> None:
    warehouse.create()
    with server.dying_at(24):
        writer(lake).write(rows(1), 1)
    assert TxnState.OPEN in {txn.state for txn in server.txns.values()}
    writer(lake)
    assert TxnState.OPEN not in {txn.state for txn in server.txns.values()}


@pytest.mark.parametrize(
    ("tables", "others", "message"),
    [
        (T, {"mode": "merge"}, "'merge' with keys"),
        (T, {"keys": "id"}, "'append' without keys"),
        (T, {"mode": "upsert"}, "found 'upsert'"),
        (T, {"stream": " "}, "stream is blank"),
        (T, {"stream": "\ud800"}, "stream contains an unpaired surrogate"),
        (T, {"stream": 5}, "stream must be a string"),
        ("t", {}, "not a valid table name"),
        ((), {}, "one or more distinct tables"),
        ((StreamTable(table=T), StreamTable(table="DEFAULT.S")), {}, "distinct tables"),
        (BOTH, {"mode": "merge"}, "each StreamTable has its own"),
    ],
)
def test_a_stream_with_unfit_arguments_does_not_start(
    lake: Lake, tables: str, others: Mapping[str, Any], message: str, server: FakeMetastore
) -> None:
    with pytest.raises(InputError, match=message):
        lake.stream_writer(tables, **{"stream": "s", **others})
    assert not server.txns


def test_a_stream_whose_keys_do_not_fit_its_table_does_not_start(
    warehouse: Warehouse, lake: Lake, server: FakeMetastore
) -> None:
    warehouse.create()
    warehouse.create(U, kind=TransactionalKind.INSERT_ONLY)
    with pytest.raises(UnknownColumnError):
        lake.stream_writer(T, stream="s", mode="merge", keys="other")
    with pytest.raises(InsertOnlyTableError):
        lake.stream_writer(U, stream="s", mode="merge", keys="id")
    assert not server.txns
    assert lake.stream_writer(U, stream="s").offsets is None


def test_an_unfit_batch_changes_nothing(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create()
    warehouse.create(U)
    two = lake.stream_writer(BOTH, stream="s")
    for batch, offsets, error in (
        (rows(1), 1, ConfigurationError),
        ({T: rows(1), "default.v": rows(1)}, 1, ConfigurationError),
        ({T: rows(1), "DEFAULT.S": rows(2)}, 1, ConfigurationError),
        ({T: rows(1)}, None, ConfigurationError),
        ({T: rows(1)}, {"p": float("nan")}, ConfigurationError),
        ({T: rows(1)}, {"p": object()}, ConfigurationError),
        ({T: rows(1)}, "x" * 70000, ConfigurationError),
        ({T: [1]}, 1, ConfigurationError),
        ({T: rows(1, other=1)}, 1, UnknownColumnError),
        ({T: rows(1), U: rows(1, 1)}, 1, SourceKeyError),
    ):
        with pytest.raises(error):
            two.write(batch, offsets)  # type: ignore[arg-type]  # unfit on purpose
    two.write({T: rows(1)}, 1)
    assert (ids(lake.table(T)), ids(lake.table(U)), two.offsets) == ([1], [], 1)


def test_small_deltas_are_compacted_beside_a_stream(
    one: StreamWriter, lake: Lake, tmp_path: Path
) -> None:
    for number in range(1, 4):
        one.write(rows(number), number)
    lake.table(T).compact("major")
    one.write(rows(4), 4)
    assert [p.name for p in (tmp_path / "s").glob("base_*")]
    assert (writer(lake).offsets, ids(lake.table(T))) == (4, [1, 2, 3, 4])


def test_the_loop_of_the_documentation_continues_after_its_last_file(
    warehouse: Warehouse, lake: Lake, clock: ManualClock, tmp_path: Path
) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-stream.md"
    (text,) = (
        b
        for b in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        if "def batches" in b
    )
    module: dict[str, Any] = {}
    exec(compile(text, page, "exec"), module)  # noqa: S102 - our own page
    module["LANDING"], module["time"] = tmp_path, clock
    warehouse.create(columns=(Column(name="id", type="bigint"), Column(name="page", type="string")))
    reports: list[StreamReport] = []
    pages = {1: "start", 2: "2026-01-31"}  # Arrow would infer that the second is a time
    for number, limit_s in ((1, 90.0), (2, 30.0)):
        lines = ({"id": number, "page": pages[number]}, {"id": 10 * number})
        (tmp_path / f"{number}.json").write_text("\n".join(map(json.dumps, lines)))
        stream = writer(lake)
        result = stream.run(module["batches"], run_for_s=limit_s, on_report=reports.append)
        assert (result.status, result.rows.inserted) == (JobStatus.COMMITTED, 2)
        assert result.details == {"batches": 1, "offsets": f"{number}.json"}
    stored = lake.table(T).scan().to_arrow().sort_by("id").to_pydict()
    assert stored == {"id": [1, 2, 10, 20], "page": ["start", "2026-01-31", None, None]}
    assert [report.batches for report in reports] == [1, 0, 1]


def test_a_loop_ends_at_a_batch_border_and_closes_its_source(
    warehouse: Warehouse, lake: Lake
) -> None:
    warehouse.create()
    events: list[object] = []

    def source(offsets: object) -> Iterator[tuple[pa.Table, int]]:
        try:
            for number in range(int(str(offsets or 0)) + 1, 9):
                yield rows(number), number
                events.append(number)
        finally:
            events.append("closed")

    result = writer(lake).run(source, is_ending=lambda: 1 in events)
    assert (result.rows.inserted, result.details["offsets"]) == (2, 2)
    assert events == [1, "closed"]
    assert writer(lake).run(lambda _: ()).status is JobStatus.NOTHING_TO_DO
    with pytest.raises(UnknownColumnError):
        writer(lake).run(lambda _: [(rows(3, other=1), 3)])
    assert ids(lake.table(T)) == [1, 2]
