"""Random histories under the real cleaning plan: no reader loses a row, none gets one back.

Writers, compactors, readers and cleaners take turns. A reader opens its transaction and takes its
snapshot; it lists the directories at once, and once more in the end, when cleaners have been there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, event, given, settings, strategies as st

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.records import FirstSeen, Reader as OpenReader
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.plan.cleaning import plan_cleaning
from tests.property.format.histories import NEVER, History, add_write, compact, histories, now
from tests.unit.format.rows import Identity, visible

ACTIONS = ("write", "write", "write", "compact", "compact", "read", "end", "clean", "clean")


@dataclass(frozen=True)
class Reader:
    """What a reader holds from its beginning: a transaction, a snapshot and a listing."""

    place: int
    time: int
    state: AcidState
    write_ids: ValidWriteIdList
    txns: ValidTxnList
    expected: list[Identity]


@dataclass
class Warehouse:
    """A history that goes on while readers are open, with the notes of its cleaner."""

    history: History = field(default_factory=History)
    readers: list[Reader] = field(default_factory=list)
    seen: dict[str, FirstSeen] = field(default_factory=dict)
    removed: int = 0

    def txns(self) -> ValidTxnList:
        return self.history.txns(now(self.history))

    def read(self) -> None:
        time = now(self.history)
        self.history.compactions.append((time, "open"))
        self.readers.append(
            Reader(
                place=len(self.history.compactions) - 1,
                time=time,
                state=self.history.state(time),
                write_ids=self.history.write_ids(time),
                txns=self.txns(),
                expected=self.history.expected(time),
            )
        )

    def end(self, reader: Reader) -> None:
        self.history.compactions[reader.place] = (reader.time, "committed")
        self.readers.remove(reader)

    def clean(self) -> None:
        """As `maintenance.clean`: note what is new, remove what may go."""
        plan = plan_cleaning(
            self.history.state(now(self.history)),
            (),
            self.seen,
            self.txns(),
            readers=[OpenReader(txn_id=txn_id) for txn_id in self.txns().open],
            now_s=0.0,
            retention_s=0.0,
            orphan_age_s=0.0,
        )
        note = FirstSeen(high_watermark=self.txns().high_watermark, at_s=0.0)
        self.seen |= dict.fromkeys(plan.unseen, note)
        for removal in plan.remove:
            del self.history.contents[removal.path]
            self.history.metadata.pop(removal.path, None)
        self.removed += len(plan.remove)
        left = self.history.state(now(self.history))
        still = {d.superseded_by for d in left.obsolete_directories}
        self.seen = {name: note for name, note in self.seen.items() if name in still}

    def rows(self, reader: Reader) -> list[Identity]:
        """From the directories that the reader found when it began."""
        assert {d.text for d in reader.state.live} <= self.history.contents.keys()
        return visible(reader.state, reader.write_ids, self.history.contents)

    def late_rows(self, reader: Reader) -> list[Identity] | None:
        """From the directories that it finds now; None if they tell that they are too young."""
        return read_late(self.history, reader.write_ids, reader.txns)


def read_late(
    history: History, write_ids: ValidWriteIdList, txns: ValidTxnList
) -> list[Identity] | None:
    try:
        state = resolve(history.listing(), write_ids, txns)
    except NotEnoughHistoryError as error:
        high = int(error.oldest_base.partition("_v")[0].removeprefix("base_"))
        assert not write_ids.is_valid_base(WriteId(high))
        return None
    return visible(state, write_ids, history.contents)


def step(data: st.DataObject, warehouse: Warehouse) -> None:
    history = warehouse.history
    match data.draw(st.sampled_from(ACTIONS)):
        case "write":
            add_write(data.draw, history, now(history) + 1)
        case "compact":
            compact(data.draw, history, now(history))
        case "read":
            warehouse.read()
        case "end" if warehouse.readers:
            warehouse.end(data.draw(st.sampled_from(warehouse.readers)))
        case "clean":
            warehouse.clean()


def is_overwritten(history: History, write_ids: ValidWriteIdList) -> bool:
    """Whether an overwrite that this snapshot does not see has been committed by now.

    Its base is no sign that anything is gone (Hive's neither): what keeps such a reader from half a
    table is its open transaction alone.
    """
    seen_now = history.write_ids(now(history))
    return any(
        write.is_overwrite and seen_now.is_visible(WriteId(w)) and not write_ids.is_visible(w)
        for w, write in history.writes.items()
    )


@pytest.mark.promise("T7")
@pytest.mark.promise("K1")
@given(st.data())
@settings(max_examples=settings.default.max_examples * 4, deadline=None)
def test_a_reader_reads_its_rows_after_any_number_of_cleanings(data: st.DataObject) -> None:
    warehouse = Warehouse()
    for _ in range(data.draw(st.integers(3, 16))):
        step(data, warehouse)
        for reader in warehouse.readers:
            assert warehouse.rows(reader) == reader.expected
            assert warehouse.late_rows(reader) in (None, reader.expected)
    event(f"removed directories: {min(warehouse.removed, 3)}")


def cleaned(history: History, time: int) -> None:
    """Remove all that goes when no transaction is open."""
    idle = ValidTxnList(high_watermark=TxnId(len(history.compactions)))
    plan = plan_cleaning(
        history.state(time),
        (),
        {},
        idle,
        readers=(),
        now_s=0.0,
        retention_s=0.0,
        orphan_age_s=0.0,
    )
    assert plan.keep == ()
    for removal in plan.remove:
        del history.contents[removal.path]
        history.metadata.pop(removal.path, None)


@pytest.mark.promise("C3")
@given(histories(), st.integers(1, 12))
@settings(max_examples=settings.default.max_examples * 4, deadline=None)
def test_every_older_snapshot_reads_the_same_rows_after_cleaning_or_is_refused(
    history: History, time: int
) -> None:
    cleaned(history, now(history))
    for later in (now(history), NEVER * 2):
        assert history.rows(later) == history.expected(later)
    time = min(time, now(history))
    write_ids = history.write_ids(time)
    assume(not is_overwritten(history, write_ids))
    # By the write IDs of then and the transactions of now: a compaction that the reader's own
    # transactions hid would hide from it what it replaced, and only an open transaction helps.
    found = read_late(history, write_ids, history.txns(now(history)))
    assert found in (None, history.expected(time))
