"""Random lives of a table over a fake metastore: real directories, cleaners that die anywhere.

A directory's file holds its events, so that what a version reads can be compared with the model.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_hiveacid.format import conflicts, errors
from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.ids import StatementId, TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.records import CommitNote, TimeBounds
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, Snapshot, ValidWriteIdList
from airflow_hiveacid.format.table import (
    Column,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance import clean_tables, removal
from airflow_hiveacid.maintenance.clean import Cleaner
from airflow_hiveacid.maintenance.overview import with_past
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION, READABLE_FOR
from airflow_hiveacid.storage.stores import threads, version_notes
from airflow_hiveacid.storage.stores.filesystem import delete_directory
from airflow_hiveacid.storage.stores.listing import list_table, metadata_text
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import keep, make_tag
from airflow_hiveacid.versions.past import Past, past_of
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock

FULL, INSERT_ONLY = TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY
V3, V4 = conflicts.MetastoreGeneration.V3, conflicts.MetastoreGeneration.V4
Row = tuple[int, str, int]
Event = tuple[Row, int]


class DeathError(Exception):
    """Somebody pulled the plug."""


@dataclass
class Reader:
    """Who reads a version in an open transaction, and the files that he needs."""

    txn_id: TxnId
    files: list[Path]


@dataclass
class Life:
    """A table and what has happened to it."""

    dice: random.Random
    client: FakeClient
    clock: ManualClock
    ref: TableRef
    kind: TransactionalKind
    is_open: dict[int, TxnId] = field(default_factory=dict)
    touched: dict[int, list[PartitionName]] = field(default_factory=dict)
    rows: dict[int, list[Row]] = field(default_factory=dict)
    deleted: dict[int, list[Row]] = field(default_factory=dict)
    overwrites: dict[int, list[str]] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    kept_since: int | None = None
    tags: dict[str, set[int]] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)
    noted: float = 0.6
    truncated: dict[str, list[int]] = field(default_factory=dict)

    # ---- what is there ----

    @property
    def table(self) -> TableInfo:
        return self.client.get_table(self.ref)

    def roots(self) -> tuple[PartitionInfo, ...]:
        return self.client.list_partitions(self.table)

    def snapshot(self) -> Snapshot:
        txns = self.client.valid_txns()
        return Snapshot(
            txn_id=None, txns=txns, tables=self.client.valid_write_ids([self.ref], txns)
        )

    def path(self, info: PartitionInfo, name: str = "") -> Path:
        return Path(info.location.removeprefix("file:")) / name

    def put(self, info: PartitionInfo, name: BaseName | DeltaName, events: list[Event]) -> None:
        directory = self.path(info, str(name))
        directory.mkdir(parents=True)
        (directory / "bucket_00000").write_text(json.dumps(events))

    def events(self, info: PartitionInfo, name: str) -> list[Event]:
        found = json.loads((self.path(info, name) / "bucket_00000").read_text())
        return [((w, p, n), current) for (w, p, n), current in found]

    def read(self, info: PartitionInfo, state: AcidState, ids: ValidWriteIdList) -> list[Row]:
        def seen(name: str) -> list[Event]:
            every = self.events(info, name)
            if self.kind is INSERT_ONLY:
                return every
            return [(row, w) for row, w in every if ids.is_visible(WriteId(w))]

        inserts = [] if state.base is None else self.events(info, state.base.text)
        inserts = [*inserts, *(e for d in state.deltas for e in seen(d.text))]
        gone = {row for d in state.delete_deltas for row, _ in seen(d.text)}
        return [row for row, _ in inserts if row not in gone]

    def past(self, **asked: object) -> Past:
        return past_of(
            self.client,
            self.table,
            VersionSpec.of(**asked),  # type: ignore[arg-type]
            self.snapshot(),
            taken_s=self.client.server.now_s,
        )

    def read_past(self, past: Past) -> list[Row]:
        roots = self.roots()
        past.check_vanished([info.name for info in roots])
        states = past.states(roots, [list_table(info.location) for info in roots])
        pairs = zip(roots, states, strict=True)
        return sorted(row for info, state in pairs for row in self.read(info, state, past.then))

    def version(self, number: int) -> list[Row]:
        """What a version was when it was the newest."""
        return self.copy({w for w in self.committed if w <= number}, number)

    def copy(self, committed: set[int], number: float = math.inf) -> list[Row]:
        """What these writes make, less what was removed before a version came to be."""
        found = []
        for place in {p for names in self.touched.values() for p in map(str, names)}:
            starts = [w for w in committed if place in self.overwrites.get(w, [])]
            starts += [w + 1 for w in self.truncated.get(place, []) if w < number]
            start = max(starts, default=0)
            gone = {r for w in committed if w >= start for r in self.deleted.get(w, [])}
            rows = [r for w in committed if w >= start for r in self.rows[w] if r[1] == place]
            found += [r for r in rows if r not in gone]
        return sorted(found)

    # ---- what happens ----

    def begin(self) -> None:
        kinds = ["insert", "insert", "overwrite"] + (["delete"] if self.kind is FULL else [])
        action = self.dice.choice(kinds)
        txn = self.client.open_txn()
        w = self.client.allocate_write_id(txn, self.ref)
        infos = [i for i in self.roots() if self.dice.random() < 0.7] or list(self.roots()[:1])
        self.is_open[w], self.touched[w], self.rows[w] = txn, [i.name for i in infos], []
        alive = self.copy(self.committed)
        for info in infos:
            place = str(info.name)
            if action == "delete":
                few = [r for r in alive if r[1] == place and self.dice.random() < 0.4]
                if few:
                    name = DeltaName(low=w, high=w, statement_id=StatementId(0), is_delete=True)
                    self.put(info, name, [(r, w) for r in few])
                    self.deleted.setdefault(w, []).extend(few)
                continue
            rows = [(int(w), place, n) for n in range(2)]
            self.rows[w] += rows
            if action == "overwrite":
                self.overwrites.setdefault(w, []).append(place)
                self.put(info, BaseName(write_id=w), [(r, w) for r in rows])
            else:
                name = DeltaName(low=w, high=w, statement_id=StatementId(0))
                self.put(info, name, [(r, w) for r in rows])

    def end(self) -> None:
        if not self.is_open:
            return
        w = self.dice.choice(sorted(self.is_open))
        txn = self.is_open.pop(w)
        newer = {p for o in self.committed if o > w for p in self.overwrites.get(o, [])}
        hidden = newer & {str(p) for p in self.touched[w]}
        stale = not set(self.deleted.get(w, [])) <= set(self.copy(self.committed))
        if hidden or stale or self.dice.random() < 0.15:
            self.client.abort_txn(txn)
            return
        self.client.commit_txn(txn)
        self.committed.add(w)
        if self.dice.random() < self.noted:
            self.note(w, txn)

    def note(self, w: int, txn: TxnId) -> None:
        infos = [i for i in self.roots() if i.name in self.touched[w]]
        names = [
            (i, p.name) for i in infos for p in self.path(i).iterdir() if self._is_of(p.name, w)
        ]
        VersionNotes.of(self.table).note_commit(
            CommitNote(
                table_id=self.table.table_id,
                write_id=WriteId(w),
                txn_id=txn,
                job_key="j",
                attempt="1",
                kind="insert",
                partitions=tuple(str(i.name) for i in infos if i.name.columns),
                directories=tuple(f"{i.location}/{name}" for i, name in names),
                committed=TimeBounds(by_s=1.0),  # old enough to be forgotten
            )
        )

    @staticmethod
    def _is_of(name: str, w: int) -> bool:
        return name in {
            f"base_{w:07d}",
            f"delta_{w:07d}_{w:07d}_0000",
            f"delete_delta_{w:07d}_{w:07d}_0000",
        }

    def compact(self, *, is_major: bool) -> None:
        info = self.dice.choice(self.roots())
        snapshot = self.snapshot()
        own = CompactorWriteIdList.of(snapshot.write_ids(self.ref))
        state = resolve(list_table(info.location), own, snapshot.txns, self.kind)
        inputs = (*state.deltas, *state.delete_deltas)
        if len({d.text.removeprefix("delete_") for d in inputs}) < 2:
            return
        high = max(d.high for d in inputs)
        if is_major:
            if self.path(info, str(BaseName(write_id=high))).exists():
                return
            live = self.read(info, state, own)
            self.put(info, BaseName(write_id=high), [(r, r[0]) for r in live])
            marker = self.path(info, f"base_{high:07d}/_metadata_acid")
            marker.write_bytes(metadata_text("compacted"))
            return
        low = min(d.name.low for d in inputs if isinstance(d.name, DeltaName))
        for chosen, is_delete in ((state.deltas, False), (state.delete_deltas, True)):
            if chosen:
                every = [e for d in chosen for e in self.events(info, d.text)]
                name = DeltaName(low=low, high=high, is_delete=is_delete)
                self.put(info, name, [e for e in every if own.is_visible(WriteId(e[1]))])

    def truncate(self) -> None:
        """As Hive 3.1 does, or somebody who drops a partition and makes it anew: no write ID."""
        if self.is_open:
            return
        info = self.dice.choice(self.roots())
        newest = self.snapshot().write_ids(self.ref).high_watermark
        self.truncated.setdefault(str(info.name), []).append(newest)
        for path in self.path(info).iterdir():
            if not path.name.startswith("_") and "=" not in path.name:
                shutil.rmtree(path)
        if info.name.columns and self.dice.random() < 0.5:
            self.client.drop_partitions(self.table, [info.name])
            if self.dice.random() < 0.5:
                self.clean()
            self.client.add_partitions(self.table, [info.name])

    def give_up(self) -> None:
        """Somebody takes away what a table is kept by."""
        self.client.set_table_parameters(self.ref, {NO_AUTO_COMPACTION: None})

    def clean(self) -> None:
        """Run our cleaner; perhaps it dies at a step, or after some directories."""
        left = [self.dice.choice([0, 1, 2, 3, 99])]
        dies_at = self.dice.choice(["", "", "horizon", "noted", "removed"])

        def step(name: str) -> None:
            if name == dies_at:
                raise DeathError

        def delete(fs: object, path: str) -> None:
            if left[0] == 0:
                raise errors.StorageError(f"no more: {path}")
            left[0] -= 1
            delete_directory(fs, path)

        table, overview = with_past(self.client, self.table, plan_only=False)
        done = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(removal, "delete_directory", delete)
            patch.setattr(threads, "AT_ONCE", 1)
            patch.setattr(version_notes, "_ENOUGH_TO_BUNDLE", 4)
            for info in self.roots():
                cleaner = Cleaner(
                    client=self.client,
                    table=table,
                    spec=CleanSpec.of_table(str(self.ref)),
                    on_step=step,
                    now_s=self.client.server.now_s,
                    overview=overview,
                )
                try:
                    done.append(cleaner.clean(info))
                except (DeathError, errors.StorageError):
                    return
            clean_tables.forget_unreadable(table, done)

    def begin_reading(self) -> None:
        number = self.dice.randint(1, max([1, *self.committed]))
        txn = self.client.open_txn()
        try:
            past, roots = self.past(version=number), self.roots()
            states = past.states(roots, [list_table(i.location) for i in roots])
        except errors.HiveAcidError:
            self.client.commit_txn(txn)
            return
        files = [self.path(i, d.text) for i, s in zip(roots, states, strict=True) for d in s.live]
        self.readers.append(Reader(txn_id=txn, files=files))

    def end_reading(self) -> None:
        if self.readers:
            reader = self.readers.pop(self.dice.randrange(len(self.readers)))
            assert all(path.exists() for path in reader.files)
            self.client.commit_txn(reader.txn_id)

    def keep(self) -> None:
        keep(self.client, self.table)
        if self.kept_since is None:
            self.kept_since = self.snapshot().write_ids(self.ref).high_watermark

    def tag(self) -> None:
        number = self.dice.randint(1, max([1, *self.committed]))
        name = self.dice.choice("abc")
        try:
            make_tag(self.client, self.table, name, VersionSpec.of(version=number))
        except (errors.VersionGoneError, errors.VersionUnknownError, errors.TagTakenError):
            return
        except errors.HiveAcidError as error:
            assert error.retryable  # noqa: PT017 - any other error ends the life
            return
        self.tags[name] = {w for w in self.committed if w <= number}

    def untag(self) -> None:
        if self.tags:
            name = self.dice.choice(sorted(self.tags))
            VersionNotes.of(self.table).forget_tag(name)
            del self.tags[name]


STEPS = ["begin"] * 5 + ["end"] * 5 + ["minor", "major", "major", "clean", "clean", "time"]
STEPS += ["read", "read", "unread", "keep", "tag", "untag"]


def live(life: Life, steps: int, kinds: Sequence[str] = STEPS) -> None:
    doings = {
        "begin": life.begin,
        "end": life.end,
        "minor": lambda: life.compact(is_major=False),
        "major": lambda: life.compact(is_major=True),
        "clean": life.clean,
        "time": lambda: life.clock.advance(life.dice.choice([1.0, 60.0, 200.0])),
        "read": life.begin_reading,
        "unread": life.end_reading,
        "keep": life.keep,
        "tag": life.tag,
        "untag": life.untag,
        "truncate": life.truncate,
        "give up": life.give_up,
    }
    for _ in range(steps):
        doings[life.dice.choice(kinds)]()


def make_life(seed: int, root: Path) -> Life:
    dice = random.Random(seed)
    clock = ManualClock()
    client = FakeClient(FakeMetastore(dice.choice([V3, V4]), clock, txn_timeout_s=1e9))
    kind = dice.choice([FULL, FULL, INSERT_ONLY])
    is_partitioned = dice.random() < 0.4
    ref = TableRef("default", f"t{seed}")
    (root / ref.name).mkdir()
    table = client.create_table(
        NewTable(
            ref=ref,
            columns=(Column(name="id", type="bigint"),),
            partition_columns=(Column(name="p", type="int"),) if is_partitioned else (),
            kind=kind,
            location=f"file:{root}/{ref.name}",
            parameters={READABLE_FOR: "100 seconds"} if dice.random() < 0.5 else {},
        )
    )
    if is_partitioned:
        names = [PartitionName.parse(f"p={n}") for n in range(2)]
        for info in client.add_partitions(table, names):
            Path(info.location.removeprefix("file:")).mkdir(parents=True, exist_ok=True)
    return Life(dice=dice, client=client, clock=clock, ref=ref, kind=kind)
