"""Histories of a table, as directories and as a model, to compare what a snapshot reads.

A history gives write IDs to inserts, deletes, updates, overwrites and streaming batches that
commit, abort or stay open, at times of their own, with compactions between. The model knows nothing
of directories: a snapshot's rows are the visible inserts since the last visible overwrite, less the
visible deletes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.ids import StatementId, TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TableRef
from tests.unit.format.rows import Event, Identity, visible

NEVER = 1000
"""A time after the end of every history."""


@dataclass
class Write:
    """One write ID: its events, and when it commits or aborts. Times are counted in write IDs."""

    inserts: list[Identity] = field(default_factory=list)
    deletes: list[Identity] = field(default_factory=list)
    is_overwrite: bool = False
    is_aborted: bool = False
    until: int = 0


@dataclass
class History:
    """The writes, and what lies on disk: events by directory, and which bases are marked."""

    writes: dict[int, Write] = field(default_factory=dict)
    contents: dict[str, list[Event]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    compactions: list[tuple[int, str]] = field(default_factory=list)
    """Time and fate of each compaction's transaction; its ID is its place, from 1."""

    def put(
        self, name: BaseName | DeltaName, events: list[Event], *, compacted: bool = False
    ) -> None:
        self.contents[str(name)] = events
        if compacted:
            self.metadata[str(name)] = "compacted"

    def listing(self) -> Listing:
        files = tuple(FileEntry(path=f"{d}/bucket_00000", size_bytes=1) for d in self.contents)
        return Listing(location="/t", files=files, metadata=self.metadata)

    def write_ids(self, time: int) -> ValidWriteIdList:
        given = {w: write for w, write in self.writes.items() if w <= time}
        done = {w: write for w, write in given.items() if write.until <= time}
        return ValidWriteIdList(
            table=TableRef("db", "t"),
            high_watermark=WriteId(max(given, default=0)),
            open=tuple(WriteId(w) for w in given if w not in done),
            aborted=tuple(WriteId(w) for w, write in done.items() if write.is_aborted),
        )

    def txns(self, time: int) -> ValidTxnList:
        begun = [n for n, (at, _) in enumerate(self.compactions, 1) if at <= time]
        fates = {n: self.compactions[n - 1][1] for n in begun}
        return ValidTxnList(
            high_watermark=TxnId(max(begun, default=0)),
            open=tuple(TxnId(n) for n, fate in fates.items() if fate == "open"),
            aborted=tuple(TxnId(n) for n, fate in fates.items() if fate == "aborted"),
        )

    def state(self, time: int) -> AcidState:
        return resolve(self.listing(), self.write_ids(time), self.txns(time))

    def rows(self, time: int) -> list[Identity]:
        return visible(self.state(time), self.write_ids(time), self.contents)

    def expected(self, time: int) -> list[Identity]:
        seen = [w for w in self.writes if self.write_ids(time).is_visible(WriteId(w))]
        start = max((w for w in seen if self.writes[w].is_overwrite), default=0)
        counted = [self.writes[w] for w in seen if w >= start]
        gone = {i for write in counted for i in write.deletes}
        return sorted(i for write in counted for i in write.inserts if i not in gone)


def identities(write_id: int, count: int, bucket: int = 0) -> list[Identity]:
    return [(write_id, bucket, k) for k in range(count)]


def events(rows: list[Identity], current: int) -> list[Event]:
    return [(row, current) for row in rows]


def single(write_id: int, statement: int, *, is_delete: bool = False) -> DeltaName:
    return DeltaName(
        low=WriteId(write_id),
        high=WriteId(write_id),
        statement_id=StatementId(statement),
        is_delete=is_delete,
    )


def fate(draw: st.DrawFn, write_id: int) -> dict[str, object]:
    delay = draw(st.sampled_from([0, 0, 0, 1, 2, NEVER]))
    return {"is_aborted": draw(st.integers(0, 3)) == 0, "until": write_id + delay}


def add_write(draw: st.DrawFn, history: History, write_id: int) -> int:
    """Add one write, or a batch of several; return the next free write ID."""
    kind = draw(st.sampled_from(["insert", "insert", "delete", "update", "overwrite", "batch"]))
    if kind == "batch":
        return add_batch(draw, history, write_id)
    write = Write(**fate(draw, write_id))  # type: ignore[arg-type]
    history.writes[write_id] = write
    if kind in ("delete", "update"):
        known = [i for w in history.writes.values() if not w.is_aborted for i in w.inserts]
        write.deletes = (
            draw(st.lists(st.sampled_from(known), unique=True, max_size=3)) if known else []
        )
        history.put(single(write_id, 0, is_delete=True), events(write.deletes, write_id))
    if kind in ("insert", "update"):
        write.inserts = identities(write_id, draw(st.integers(1, 2)))
        history.put(single(write_id, 1 if kind == "update" else 0), events(write.inserts, write_id))
    if kind == "overwrite":
        write.is_overwrite = True
        write.inserts = identities(write_id, draw(st.integers(0, 2)))
        history.put(BaseName(write_id=WriteId(write_id)), events(write.inserts, write_id))
    return write_id + 1


def add_batch(draw: st.DrawFn, history: History, write_id: int) -> int:
    last = write_id + draw(st.integers(1, 2))
    found: list[Event] = []
    for w in range(write_id, last + 1):
        write = Write(inserts=identities(w, 1), **fate(draw, w))  # type: ignore[arg-type]
        history.writes[w] = write
        found += events(write.inserts, w)
    history.put(DeltaName(low=WriteId(write_id), high=WriteId(last)), found)
    return last + 1


def compact(draw: st.DrawFn, history: History, time: int) -> None:
    """Compact what a compactor may at that time; what it writes may never become visible."""
    with_suffix, is_major = draw(st.booleans()), draw(st.booleans())
    history.compactions.append((time, "committed"))
    own = CompactorWriteIdList.of(history.write_ids(time))
    # the compactor's own transaction is not committed while it looks
    before = resolve(history.listing(), own, without_last(history.txns(time)))
    inputs = (*before.deltas, *before.delete_deltas)
    if len(inputs) < 2:
        return
    txn_id = TxnId(len(history.compactions)) if with_suffix else None
    high = max(d.high for d in inputs)
    done = True
    if with_suffix:
        outcome = draw(st.sampled_from(["committed", "committed", "open", "aborted"]))
        history.compactions[-1] = (time, outcome)
        done = outcome == "committed"
    rubbish: list[Event] = [((1, 99, len(history.contents)), 1)]
    if is_major:
        name = BaseName(write_id=high, visibility_txn_id=txn_id)
        if str(name) in history.contents:
            return
        kept = visible(before, own, history.contents)
        found = [e for d in before.live for e in history.contents[d.text] if e[0] in set(kept)]
        live = [e for e in found if own.is_visible(WriteId(e[1])) and e[1] == e[0][0]]
        history.put(name, live if done else rubbish, compacted=txn_id is None)
        return
    low = min(d.name.low for d in inputs if isinstance(d.name, DeltaName))
    for chosen in (before.deltas, before.delete_deltas):
        is_delete = chosen is before.delete_deltas
        pair = DeltaName(low=low, high=high, visibility_txn_id=txn_id, is_delete=is_delete)
        if str(pair) in history.contents:
            continue
        all_events = [e for d in chosen for e in history.contents[d.text]]
        kept_events = [e for e in all_events if own.is_visible(WriteId(e[1]))]
        history.put(pair, kept_events if done else rubbish)


def without_last(txns: ValidTxnList) -> ValidTxnList:
    last = txns.high_watermark
    return ValidTxnList(
        high_watermark=TxnId(last - 1),
        open=tuple(t for t in txns.open if t < last),
        aborted=tuple(t for t in txns.aborted if t < last),
    )


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    write_id = 1
    for _ in range(draw(st.integers(1, 8))):
        write_id = add_write(draw, history, write_id)
        if draw(st.integers(0, 2)) == 0:
            compact(draw, history, write_id - 1)
    return history


def now(history: History) -> int:
    return max(history.writes, default=0)
