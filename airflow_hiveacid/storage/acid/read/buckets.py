"""Group the files of a snapshot by bucket, each with the delete files that may affect it.

It also finds visible delete events for lost rows, in a bucket that has no file. A writer that does
not check for conflicts can delete a row twice. If a major compaction removes the row in between,
its bucket may have no file, although no row was lost. A base covers all writes up to its write ID;
a row of a later write is in a delta that no compaction has read, so its file must exist.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from airflow_hiveacid.format import names
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.change_range import ChangeSegment
from airflow_hiveacid.format.errors import (
    DanglingDeleteError,
    InvalidNameError,
    UnsupportedFileError,
)
from airflow_hiveacid.format.ids import LONG_MAX, BucketId, BucketProperty, WriteId, decode
from airflow_hiveacid.format.snapshot import RangeVisibility, ValidWriteIdList
from airflow_hiveacid.storage.acid.identity import Keys, current_write_ids
from airflow_hiveacid.storage.acid.merge import visible_events, visible_mask
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind
from airflow_hiveacid.storage.acid.read.file_check import needs_new_row_ids
from airflow_hiveacid.storage.acid.read.files import FooterFacts, Footers, RootFiles, roots_of
from airflow_hiveacid.storage.acid.read.reader import read_bucket_properties, read_identity
from airflow_hiveacid.storage.stores.threads import each_in_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The files of one bucket that are visible in one snapshot.

    `base_inserts` are the files of the base or the original files, `delta_inserts` those of deltas.
    `deletes` may also contain events for other buckets: minor compaction in Hive 3.1 copies them.

    `shared` maps the key of each file with rows of several buckets to these buckets. It is empty
    unless the files were grouped by their rows (`buckets_by_rows`).
    """

    bucket_id: BucketId
    base_inserts: tuple[AcidFile, ...]
    delta_inserts: tuple[AcidFile, ...]
    deletes: tuple[AcidFile, ...]
    shared: Mapping[str, frozenset[BucketId]] = field(default_factory=dict)

    @property
    def inserts(self) -> tuple[AcidFile, ...]:
        """Every file with rows."""
        return (*self.base_inserts, *self.delta_inserts)

    def deletes_of(self, data: AcidFile) -> tuple[AcidFile, ...]:
        """Return the delete files that may contain events for rows of one file."""
        deletes = tuple(file for file in self.deletes if file.may_overlap(data))
        return self.deletes if len(deletes) == len(self.deletes) else deletes


def bucket_files(
    state: AcidState, write_ids: ValidWriteIdList | None = None
) -> tuple[BucketFiles, ...]:
    """Return the files of one root by bucket; `write_ids` also check partly visible deletes."""
    (buckets,) = buckets_of([state], write_ids)
    return buckets


def buckets_by_rows(
    state: AcidState, write_ids: ValidWriteIdList | None = None
) -> tuple[BucketFiles, ...]:
    """Return the files of one table or partition, for each bucket of which they have rows.

    A file with rows of several buckets (HIVE-23763) is in the result for each, so its reader must
    choose the rows. All footers are read.
    """
    (root_files,) = roots_of([state])
    (root_buckets,) = _grouped([root_files], write_ids)
    inserts = [file for bucket in root_buckets for file in bucket.inserts]
    spread = _buckets_by_file(root_files.footers, inserts)
    shared = {file.key: spread[file.path] for file in inserts if len(spread[file.path]) > 1}
    if not shared:
        return root_buckets
    by_id = {bucket.bucket_id: bucket for bucket in root_buckets}
    numbers = sorted({*by_id, *(number for buckets in shared.values() for number in buckets)})
    deletes = tuple({file.path: file for b in root_buckets for file in b.deletes}.values())

    def files_of(number: BucketId, files: Iterable[AcidFile]) -> tuple[AcidFile, ...]:
        return tuple(f for f in files if number in spread[f.path])

    base = [file for bucket in root_buckets for file in bucket.base_inserts]
    delta = [file for bucket in root_buckets for file in bucket.delta_inserts]
    return tuple(
        BucketFiles(
            bucket_id=number,
            base_inserts=files_of(number, base),
            delta_inserts=files_of(number, delta),
            deletes=by_id[number].deletes if number in by_id else deletes,
            shared=shared,
        )
        for number in numbers
    )


def _buckets_by_file(
    footers: Footers, inserts: Iterable[AcidFile]
) -> dict[str, frozenset[BucketId]]:
    """Return the buckets of each file's rows by path, also that of its name."""
    inserts = tuple(inserts)
    stored = [file for file in inserts if file.kind is FileKind.DATA]
    footers.read([(file.path, file.length) for file in stored])
    buckets = {file.path: footers.of(file.path, file.length).buckets for file in stored}
    # The statistics of a file may be incomplete; then its rows are read.
    buckets |= {f.path: frozenset(buckets_read(f)) for f in stored if buckets[f.path] is None}
    return {f.path: frozenset({f.bucket_id, *(buckets.get(f.path) or ())}) for f in inserts}


def buckets_of(
    states: Iterable[AcidState], write_ids: ValidWriteIdList | None = None
) -> tuple[tuple[BucketFiles, ...], ...]:
    """Return the files of several partitions, in the given order, each grouped by bucket.

    The footers of delete files, of files whose names do not show whether they have ACID columns,
    and of data files that delete events of other buckets may affect, are read once, in parallel.
    If the footer of such a data file does not show the buckets of its rows, their column is read.
    """
    return _grouped(roots_of(states), write_ids)


def buckets_changed(segments: Sequence[ChangeSegment]) -> tuple[tuple[BucketFiles, ...], ...]:
    """Return the files of several segments with the same range, as `buckets_of` does.

    But of the data files whose rows cannot have changed in the range, no footer is read to find
    their deletes, so `deletes_of` may lack some; `change_files` does not yield these files.
    """
    until = segments[0].part.until if segments else None
    return _grouped(roots_of(s.state for s in segments), until, segments)


def _grouped(
    roots: Sequence[RootFiles],
    write_ids: ValidWriteIdList | None,
    segments: Iterable[ChangeSegment | None] = (),
) -> tuple[tuple[BucketFiles, ...], ...]:
    each = itertools.zip_longest(roots, segments)
    _read_footers((root_files.footers, _unclear(root_files)) for root_files in roots)
    checked = [_checked(root_files, write_ids, segment) for root_files, segment in each]
    _read_footers((c.footers, [(f.path, f.length) for f in c.unsure]) for c in checked)
    unknown = [
        f for c in checked for f in c.unsure if c.footers.of(f.path, f.length).buckets is None
    ]
    stored = dict(zip(unknown, each_in_threads(_stored, unknown), strict=True))
    return tuple(_buckets(files, stored) for files in checked)


def _read_footers(wanted: Iterable[tuple[Footers, Iterable[tuple[str, int]]]]) -> None:
    by_store: dict[int, tuple[Footers, list[tuple[str, int]]]] = {}
    for footers, files in wanted:
        by_store.setdefault(id(footers), (footers, []))[1].extend(files)
    for footers, paths in by_store.values():
        footers.read(paths)


def _unclear(root_files: RootFiles) -> Iterator[tuple[str, int]]:
    # These are the footers that `_checked` needs. Skip invalid names, and files open for streaming:
    # their length is read later.
    for entry in root_files.state.originals:
        if isinstance(names.parse_file_name(entry.name), names.OriginalFileName):
            yield root_files.path(entry), entry.size_bytes
    for directory in root_files.state.live:
        for entry in () if directory.side_files else directory.files:
            is_clear = isinstance(names.parse_file_name(entry.name), names.BucketFileName)
            if directory.is_delete or not is_clear:
                yield root_files.path(entry), entry.size_bytes


class _Checked(NamedTuple):
    """The visible files of one root, after the check for lost rows.

    `unsure` contains each data file whose footer must show whether it has rows of other buckets
    (HIVE-23763): a delete file for other buckets only may have events for rows of its write IDs.
    """

    footers: Footers
    first: tuple[AcidFile, ...]
    rest: tuple[AcidFile, ...]
    deletes: tuple[AcidFile, ...]
    facts: Mapping[str, FooterFacts]
    unsure: tuple[AcidFile, ...]


def _checked(
    root_files: RootFiles, write_ids: ValidWriteIdList | None, segment: ChangeSegment | None
) -> _Checked:
    state, footers = root_files.state, root_files.footers
    first, rest = root_files.first_files(), root_files.delta_files()
    deletes = root_files.delete_files()
    facts = {f.path: footers.of(f.path, f.length) for f in deletes}
    require_rows(
        state,
        {f.bucket_id for f in (*first, *rest)},
        [(f, facts[f.path]) for f in deletes],
        write_ids,
        lambda: frozenset().union(*_buckets_by_file(footers, (*first, *rest)).values()),
    )
    deletes = tuple(_bounded(f, facts[f.path].write_ids) for f in deletes)
    inserts = [*first, *rest]
    read = inserts if segment is None else _may_have_changed(inserts, deletes, segment)
    unsure = tuple(_unsure(read, deletes, facts))
    return _Checked(footers, first, rest, deletes, facts, unsure)


def _may_have_changed(
    inserts: Sequence[AcidFile], deletes: Iterable[AcidFile], segment: ChangeSegment
) -> Iterator[AcidFile]:
    fresh = _Spans.of([d for d in deletes if d.top in segment.fresh])
    for file, is_hit in zip(inserts, fresh.overlaps(inserts) > 0, strict=True):
        if is_hit or segment.is_whole(file.top):
            yield file


def _unsure(
    inserts: Iterable[AcidFile], deletes: Sequence[AcidFile], facts: Mapping[str, FooterFacts]
) -> Iterator[AcidFile]:
    # There may be thousands of files of either kind, so they are counted, not compared in pairs:
    # more delete files overlap a file than those with events of its bucket.
    known = [d for d in deletes if facts[d.path].buckets]
    hit, _ = _by_bucket_hit(known, facts)
    every = _Spans.of(known)
    for bucket, files in _by_bucket(f for f in inserts if f.kind is FileKind.DATA).items():
        own = _Spans.of([known[i] for i in hit.get(bucket, ())])
        yield from itertools.compress(files, every.overlaps(files) > own.overlaps(files))


class _Spans(NamedTuple):
    """The least and the greatest write IDs of files, each in sorted order."""

    least: npt.NDArray[np.int64]
    greatest: npt.NDArray[np.int64]

    @classmethod
    def of(cls, files: Sequence[AcidFile]) -> _Spans:
        return cls(*map(np.sort, _write_ids(files)))

    def overlaps(self, files: Sequence[AcidFile]) -> npt.NDArray[np.intp]:
        """Return the number of spans that overlap each file (`AcidFile.may_overlap`)."""
        least, greatest = _write_ids(files)
        begun = np.searchsorted(self.least, greatest, side="right")
        return begun - np.searchsorted(self.greatest, least, side="left")


def _write_ids(files: Sequence[AcidFile]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    greatest = [LONG_MAX if (most := f.greatest_write_id) is None else most for f in files]
    return np.array([f.least_write_id for f in files], np.int64), np.array(greatest, np.int64)


def _stored(file: AcidFile) -> AbstractSet[BucketId] | None:
    # None if a row has an invalid bucket property: any delete file may have its event.
    try:
        return buckets_read(file)
    except UnsupportedFileError:
        return None


def _buckets(
    files: _Checked, read: Mapping[AcidFile, AbstractSet[BucketId] | None]
) -> tuple[BucketFiles, ...]:
    """Return the files of one root; `read` has buckets that the footers of files do not show."""
    deletes = files.deletes
    hit, everywhere = _by_bucket_hit(deletes, files.facts)
    of_base, of_deltas = _by_bucket(files.first), _by_bucket(files.rest)
    unsure = _by_bucket(files.unsure)

    def deletes_of(bucket: BucketId) -> tuple[AcidFile, ...]:
        stored = [
            read[f] if f in read else files.footers.of(f.path, f.length).buckets
            for f in unsure.get(bucket, ())
        ]
        if None in stored:
            return deletes
        rows = frozenset({bucket}).union(*filter(None, stored))
        return tuple(
            deletes[i] for i in sorted({*everywhere, *(i for b in rows for i in hit.get(b, ()))})
        )

    return tuple(
        BucketFiles(
            bucket_id=bucket,
            base_inserts=tuple(of_base.get(bucket, ())),
            delta_inserts=tuple(of_deltas.get(bucket, ())),
            deletes=deletes_of(bucket),
        )
        for bucket in sorted({f.bucket_id for f in (*files.first, *files.rest, *deletes)})
    )


def _bounded(file: AcidFile, write_ids: tuple[WriteId, WriteId] | None) -> AcidFile:
    if write_ids is None:
        return file
    low, high = write_ids
    return dataclasses.replace(file, least_write_id=low, greatest_write_id=high)


def _by_bucket(files: Iterable[AcidFile]) -> dict[BucketId, list[AcidFile]]:
    groups: dict[BucketId, list[AcidFile]] = {}
    for file in files:
        groups.setdefault(file.bucket_id, []).append(file)
    return groups


def _by_bucket_hit(
    deletes: Sequence[AcidFile], facts: Mapping[str, FooterFacts]
) -> tuple[dict[BucketId, list[int]], list[int]]:
    """Return the indices of delete files, by bucket, and of those that may affect any bucket."""
    hit: dict[BucketId, list[int]] = {}
    everywhere: list[int] = []
    for index, file in enumerate(deletes):
        buckets = facts[file.path].buckets
        if buckets is None:
            everywhere.append(index)
            continue
        for bucket in {file.bucket_id, *buckets}:
            hit.setdefault(bucket, []).append(index)
    return hit, everywhere


_log = logging.getLogger(__name__)


def require_rows(
    state: AcidState,
    present: AbstractSet[BucketId],
    deletes: Sequence[tuple[AcidFile, FooterFacts]],
    write_ids: ValidWriteIdList | None,
    stored: Callable[[], AbstractSet[BucketId]] = frozenset,
) -> None:
    """Raise an error if a visible delete event shows that the files of its bucket were lost.

    A row may be inserted and deleted at the same write ID. Its delete event is accepted, because a
    compactor may have dropped the insert event, and so is that of a row that the reader does not
    see. If the base covers the write that inserted a row, its delete event is only logged; the next
    major compaction drops it.

    Without `write_ids`, only delete deltas that are wholly visible are checked.

    `present` are the buckets of the names of the files with rows. `stored` returns the buckets of
    the rows in these files. It is called only if a bucket is not in `present`. Raises
    DanglingDeleteError if a bucket without a file has any other visible delete event.
    """
    resolved = {d.text for d in state.delete_deltas if d.visibility is RangeVisibility.ALL}
    for file, facts in deletes:
        if facts.buckets is not None and facts.buckets <= present:
            continue
        if write_ids is None and file.top not in resolved:
            continue
        hit = _buckets_hit(file, write_ids, state)
        missing = hit.must_be_there - present
        # A file may contain rows of other buckets than that of its name (HIVE-23763).
        missing -= stored() if missing else set()
        if missing:
            raise DanglingDeleteError(
                path=file.path,
                reason="the snapshot has no file for bucket "
                + ", ".join(map(str, sorted(missing))),
            )
        compacted = hit.in_base - present
        if compacted and state.base is not None:
            _log.warning(
                "delete events without rows: %s no longer has these rows; a major compaction drops"
                " the events file=%s buckets=%s",
                state.base.text,
                file.path,
                sorted(compacted),
            )


class _Hit(NamedTuple):
    must_be_there: set[BucketId]
    in_base: set[BucketId]
    """Buckets of rows that the base covers; a compaction or an overwrite may have removed these
    rows."""


def _buckets_hit(file: AcidFile, write_ids: ValidWriteIdList | None, state: AcidState) -> _Hit:
    """Return the buckets of the rows that visible events delete and that must have existed.

    As `require_rows` says, rows of the event's own write and of invisible writes need not exist.
    """
    hit = _Hit(set(), set())
    events = read_identity(file)
    for batch in events if write_ids is None else visible_events(events, write_ids):
        keys = Keys.of(batch)
        is_needed = keys.original != current_write_ids(batch)
        if write_ids is not None:
            is_needed &= visible_mask(keys.original, write_ids)
        covered = _is_in_base(keys.original, state)
        hit.must_be_there.update(_distinct(file, keys.bucket[is_needed & ~covered]))
        hit.in_base.update(_distinct(file, keys.bucket[is_needed & covered]))
    return hit


def buckets_read(file: AcidFile) -> set[BucketId]:
    """Return the buckets of the rows in a file.

    Raises UnsupportedFileError if a row has an invalid bucket property.
    """
    batches = read_bucket_properties(file)
    return {bucket for properties in batches for bucket in _distinct(file, properties)}


def _distinct(file: AcidFile, properties: npt.NDArray[np.integer[Any]]) -> set[BucketId]:
    return set(bucket_ids_in(file, np.unique(properties).tolist()))


def bucket_ids_in(file: AcidFile, properties: Iterable[int]) -> list[BucketId]:
    """Return the bucket of each bucket property in a file; see `buckets_read`."""
    try:
        return [decode(BucketProperty(bucket_property)).bucket_id for bucket_property in properties]
    except InvalidNameError as error:
        raise needs_new_row_ids(file.path, error) from error


def _is_in_base(original: npt.NDArray[np.integer[Any]], state: AcidState) -> npt.NDArray[np.bool_]:
    # Mask the write IDs that the base covers, but no live delta. The base of an overwrite does not
    # cover its own write ID, because no compaction has removed rows of this write.
    if state.base is None:
        return np.zeros(len(original), dtype=bool)
    covered: npt.NDArray[np.bool_] = (
        original <= state.base.high if state.base.is_compacted else original < state.base.high
    )
    for delta in state.deltas:
        if isinstance(delta.name, names.DeltaName):
            covered &= (original < delta.name.low) | (original > delta.name.high)
    return covered
