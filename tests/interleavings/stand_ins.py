"""What stands in for executors, and how the product is made to live in a `World`.

Everything of the product runs as it is but: the session, the frames, the files' format (a few
events as JSON), the thread pools (one after another, so that a schedule is all there is), the
threads of heartbeats (the world beats), the clock, the disk, and locks that processes do not share.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import pytest

from airflow_hiveacid.format.acid_state import AcidDirectory, AcidState, resolve
from airflow_hiveacid.format.change_range import ChangeSegment
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.snapshot import Snapshot, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import heartbeat
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.maintenance import bucket_tasks, compact_tables
from airflow_hiveacid.spark.reading.events import Events
from airflow_hiveacid.spark.writing import context, work
from airflow_hiveacid.storage.acid.write.bucket_merge import BucketCompaction, CompactedFile
from airflow_hiveacid.storage.acid.write.reissue import Reissue
from airflow_hiveacid.storage.stores import locations, threads, version_notes
from airflow_hiveacid.storage.stores.filesystem import file_errors, write_bytes
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing import compaction, publish, restarts
from airflow_hiveacid.writing.event_files import WritePlan, partition_text
from airflow_hiveacid.writing.publish import StagedFile
from tests.interleavings.rows import (
    BUCKET,
    Change,
    Edit,
    Event,
    Identity,
    Row,
    delete_file,
    edit,
    events,
    insert_file,
    merged_file,
)
from tests.interleavings.world import Beats, World

_world: World | None = None


def enter(world: World) -> None:
    """Let the product live in this world from here on."""
    global _world  # noqa: PLW0603 -- the product is one, and so is the world that it is in
    _world = world


def world() -> World:
    """The world that the product lives in."""
    assert _world is not None
    return _world


def short(partition: PartitionName) -> str:
    """The partition as rows tell it."""
    return partition.values[0] or "" if partition.values else ""


# ---- reading -------------------------------------------------------------------------------------


def read_rows(
    states: Iterable[tuple[PartitionInfo, AcidState]], write_ids: ValidWriteIdList
) -> list[tuple[Row, Identity]]:
    """What a reader of the product's reads: the directories that it has chosen, file by file."""
    rows: list[tuple[Row, Identity]] = []
    for info, state in states:
        inserts = _visible((*((state.base,) if state.base else ()), *state.deltas), info, write_ids)
        dead = {e[:3] for e in _visible(state.delete_deltas, info, write_ids)}
        rows += [((short(info.name), e[4], e[5]), e[:3]) for e in inserts if e[:3] not in dead]
    return rows


def read_changes(info: PartitionInfo, segment: ChangeSegment) -> tuple[list[Row], list[Row]]:
    """Stands for `storage.acid.read.changes`: the rows that came, and those that went."""
    state, part = segment.state, segment.part
    deaths: dict[Identity, list[int]] = {}
    for e in _visible(state.delete_deltas, info, part.until):
        deaths.setdefault(e[:3], []).append(e[3])
    came, went = [], []
    for directory in (*((state.base,) if state.base else ()), *state.deltas):
        for e in _visible((directory,), info, part.until):
            every = deaths.get(e[:3], [] if segment.ends_with is None else [segment.ends_with])
            death, is_born = min(every, default=None), part.holds(WriteId(e[0]))
            if any(part.since.is_visible(WriteId(w)) for w in every):
                continue
            if is_born and death is not None and death <= e[0]:
                continue
            row = (short(info.name), e[4], e[5])
            if is_born and directory.text in segment.fresh:
                came.append(row)
            if death is not None:
                went.append(row)
    return came, went


def _visible(
    directories: Iterable[AcidDirectory], info: PartitionInfo, write_ids: ValidWriteIdList
) -> list[Event]:
    found = []
    for directory in directories:
        for file in directory.files:
            found += _read_file(f"{info.location}/{file.path}")
    return [e for e in found if write_ids.is_visible(e[3])]  # type: ignore[arg-type]


def _read_file(uri: str) -> tuple[Event, ...]:
    fs, path = open_location(uri)
    with file_errors("read", path), fs.open_input_stream(path) as stream:
        return events(stream.read())


# ---- writing -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Target:
    """Stands for `spark.reading.target.Target`."""

    table: TableInfo
    snapshot: Snapshot
    partitions: tuple[PartitionInfo, ...]
    staged: object

    @property
    def elsewhere(self) -> dict[PartitionName, str]:
        usual = self.table.default_partition_location
        return {p.name: p.location for p in self.partitions if p.location != usual(p.name)}

    def rows(self) -> list[tuple[Row, Identity]]:
        write_ids = self.snapshot.write_ids(self.table.ref)
        states = [
            (info, resolve(list_table(info.location), write_ids, self.snapshot.txns))
            for info in self.partitions
        ]
        return read_rows(states, write_ids)


def _resolve_target(
    spark: object,
    client: MetastorePort,
    table: TableInfo,
    snapshot: Snapshot,
    touched: Touched | None = None,
    *,
    staged: object = None,
) -> Target:
    del spark
    infos = (touched or Touched()).partitions(client, table)
    return Target(table=table, snapshot=snapshot, partitions=infos, staged=staged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Stands for a Spark frame of events."""

    target: Target
    edit: Edit

    def mapInArrow(self, function: partial[object], schema: str) -> Written:  # noqa: N802 -- Spark's
        del schema
        return Written(frame=self, plan=function.keywords["function"].keywords["plan"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Stands for the frame of what the writers wrote."""

    frame: Frame
    plan: WritePlan

    def collect(self) -> list[types.SimpleNamespace]:
        _begin_work()
        target, done = self.frame.target, self.frame.edit
        names = {short(info.name): info.name for info in target.partitions}
        table = target.table
        found: list[types.SimpleNamespace] = []
        scope = sorted({p for p, _ in done.deletes} | {row[0] for row in done.inserts})
        for partition in scope:
            name = names.get(partition) or table.partition_name([partition] if partition else [])
            deletes = [identity for p, identity in done.deletes if p == partition]
            inserts = [row for row in done.inserts if row[0] == partition]
            plan, write_id = self.plan, int(self.plan.write_id)
            for directory, content, count in (
                (plan.delete_directory, delete_file(deletes, write_id), len(deletes)),
                (plan.insert_directory, insert_file(inserts, write_id), len(inserts)),
            ):
                if count:
                    found.append(_executor_writes(plan, name, str(directory), content, count))
        return found


def _executor_writes(
    plan: WritePlan, name: PartitionName, directory: str, content: bytes, count: int
) -> types.SimpleNamespace:
    attempt = _put(plan.staging(name), directory, content)
    return types.SimpleNamespace(
        partition=partition_text(name),
        directory=directory,
        bucket=0,
        attempt=attempt,
        rows=count,
        updated=0,
        size_bytes=len(content),
    )


def _begin_work() -> None:
    """Who cancels a group ends what runs of it at that moment."""
    actor = world().current
    if actor is not None:
        actor.is_cancelled = False


def _put(staging: Staging, directory: str, content: bytes) -> str:
    """What a task does: it writes a file of its own; a job that was cancelled fails."""
    here = world()
    if here.current is not None and here.current.is_cancelled:
        raise RuntimeError("the job was cancelled")
    attempt = uuid.uuid4().hex
    fs, path = open_location(staging.attempt_path(directory, BUCKET, attempt))
    write_bytes(fs, path, content)
    return attempt


def _empty_file(
    table: TableInfo, partition: PartitionName, directory: str, staging: Staging, options: object
) -> StagedFile:
    del table, options
    attempt = _put(staging, directory, b"[]")
    return StagedFile(
        partition=partition,
        directory=directory,
        bucket=BucketId(0),
        attempt=attempt,
        rows=0,
        updated=0,
        size_bytes=2,
    )


def make_events(change: Change) -> Callable[[Any, object], Events]:
    """The statement: what the change does to the rows that the target's snapshot shows."""

    def make(target: Target, source: object) -> Events:
        del source
        is_blind = change.kind in ("insert", "overwrite")
        done = edit(change, () if is_blind else target.rows())
        return Events(frame=lambda: Frame(target=target, edit=done))  # type: ignore[arg-type]

    return make


def _reissue(work: Reissue) -> int:
    """Stands for `storage.acid.write.reissue`: the same events under another write ID."""
    old, new = int(work.old), int(work.new)
    found = _read_file(work.source)
    if any((e[0], e[3]) != (old, old) for e in found):
        raise UnsupportedFileError(path=work.source, reason="its events are not all of one write")
    content = json.dumps([[new, *e[1:3], new, *e[4:]] for e in found]).encode()
    fs, path = open_location(work.target)
    write_bytes(fs, path, content)
    return len(content)


# ---- compacting ----------------------------------------------------------------------------------


def _buckets_by_rows(state: AcidState, write_ids: object) -> list[types.SimpleNamespace]:
    del write_ids

    def paths(directories: Iterable[AcidDirectory]) -> tuple[str, ...]:
        return tuple(f"{state.location}/{f.path}" for d in directories for f in d.files)

    base = paths((state.base,) if state.base else ())
    deltas = paths(state.deltas)
    return [
        types.SimpleNamespace(
            bucket_id=BucketId(0),
            inserts=(*base, *deltas),
            delta_inserts=deltas,
            deletes=paths(state.delete_deltas),
            shared={},
        )
    ]


def _compact_buckets(spark: object, works: Sequence[BucketCompaction]) -> list[CompactedFile]:
    del spark
    _begin_work()
    return [file for work in works for file in _merge(work)]


def _merge(work: BucketCompaction) -> Iterator[CompactedFile]:
    """Stands for `storage.acid.write.bucket_merge`: aborted rows go, deleted ones of a base too."""

    def visible(files: Iterable[Any]) -> list[Event]:
        found = [e for file in files for e in _read_file(str(file))]
        return [e for e in found if work.write_ids.is_visible(e[3])]  # type: ignore[arg-type]

    inserts, deletes = visible(work.inserts), visible(work.deletes)
    dead = {e[:3] for e in deletes}
    for output in work.outputs:
        if not isinstance(output, DeltaName):
            chosen = [e for e in inserts if e[:3] not in dead]
        else:
            chosen = deletes if output.is_delete else inserts
        if chosen:
            content = merged_file(chosen)
            yield CompactedFile(
                directory=str(output),
                bucket_id=BucketId(0),
                attempt=_put(work.staging, str(output), content),
                rows=len(chosen),
                size_bytes=len(content),
            )


# ---- the rest ------------------------------------------------------------------------------------


class Pool:
    """Stands for a thread pool: everything is done, one after another, then results and errors."""

    def __init__(self, most: int) -> None:
        del most

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], *pieces: Iterable[Any]) -> Iterator[Any]:
        done: list[Future[Any]] = []
        for piece in zip(*pieces, strict=True):
            future: Future[Any] = Future()
            try:
                future.set_result(function(*piece))
            except Exception as error:  # noqa: BLE001 -- as a pool does, for every one of them
                future.set_exception(error)
            done.append(future)
        return (future.result() for future in done)


class _BeatThread:
    """Stands for the thread of a heartbeat."""

    def __init__(self, *, target: types.MethodType, name: str, daemon: bool) -> None:
        del name, daemon
        self._heartbeat: heartbeat.Heartbeat = target.__self__

    def start(self) -> None:
        here, beats = world(), self._heartbeat
        here.beats.append(
            Beats(
                heartbeat=beats,
                actor=here.current,
                interval_s=beats._interval_s,
                due_s=here.clock.now_s + beats._interval_s,
            )
        )

    def is_alive(self) -> bool:
        here = world()
        here.beats = [b for b in here.beats if b.heartbeat is not self._heartbeat]
        return False


@contextlib.contextmanager
def _job_group(spark: object, name: str) -> Iterator[Callable[[], None]]:
    del spark, name
    actor = world().current

    def cancel() -> None:
        if actor is not None:
            actor.is_cancelled = True

    yield cancel


def _kept(
    prop: functools.cached_property[Any], instance: object, owner: type | None = None
) -> object:
    """What Python 3.12 does. 3.11 has one lock for all instances, and an actor is a process."""
    del owner
    if instance is None:
        return prop
    kept = vars(instance)
    name = str(prop.attrname)
    if name not in kept:
        kept[name] = prop.func(instance)
    return kept[name]


_JVM: Final = types.SimpleNamespace(sc=lambda: types.SimpleNamespace(isStopped=lambda: False))
SPARK: Final[Any] = types.SimpleNamespace(
    sparkContext=types.SimpleNamespace(applicationId="lab-application", _jsc=_JVM)
)
"""Stands for a session."""


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Put every stand-in in place."""
    # The clock never waits for the event that ends a heartbeat.
    beating = types.SimpleNamespace(
        Thread=_BeatThread, Event=threading.Event, current_thread=lambda: None
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locations, "_local", lambda: world().disk)
        patch.setattr(heartbeat, "threading", beating)
        patch.setattr(functools.cached_property, "__get__", _kept)
        patch.setattr(threads, "ThreadPoolExecutor", Pool)
        for module in (context, compact_tables):
            patch.setattr(module, "job_group", _job_group)
        for module in (publish, compaction):
            patch.setattr(module, "empty_file", _empty_file)
        patch.setattr(version_notes, "each_in_threads", lambda one, items: [one(i) for i in items])
        patch.setattr(work, "resolve_target", _resolve_target)
        patch.setattr(restarts, "reissue", _reissue)
        patch.setattr(compaction, "buckets_by_rows", _buckets_by_rows)
        patch.setattr(bucket_tasks, "compact_buckets", _compact_buckets)
        yield
