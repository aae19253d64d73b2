"""The files that one reader opens, bucket by bucket, each with the delete files that may hit it.

Takes the directories that a snapshot chose (`AcidState`); gives `BucketFiles`. Delete events are
looked at before any row is: which buckets they are for, and whether these have rows. Must not know
rows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.names import BucketFileName, OriginalFileName, parse_file_name
from airflow_hiveacid.storage.acid.read.dangling import require_rows
from airflow_hiveacid.storage.acid.read.files import Place, places_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.ids import BucketId, WriteId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
    from airflow_hiveacid.storage.acid.read.footer_facts import FooterFacts, Footers


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The files of one bucket under one snapshot.

    `base_inserts` are those of the base or the original files, `delta_inserts` those of deltas.
    `deletes` are all delete files that may hold events for rows of this bucket; they may hold
    events for rows of others as well, which Hive 3.1's minor compaction copies around.
    """

    bucket_id: BucketId
    base_inserts: tuple[AcidFile, ...]
    delta_inserts: tuple[AcidFile, ...]
    deletes: tuple[AcidFile, ...]

    @property
    def inserts(self) -> tuple[AcidFile, ...]:
        """Every file with rows."""
        return (*self.base_inserts, *self.delta_inserts)

    def deletes_of(self, data: AcidFile) -> tuple[AcidFile, ...]:
        """The delete files that may hold events for rows of one file.

        Whoever reads a thousand deltas apart would else read a thousand delete deltas for each.
        """
        found = tuple(file for file in self.deletes if file.may_meet(data))
        return self.deletes if len(found) == len(self.deletes) else found


def bucket_files(
    state: AcidState, write_ids: ValidWriteIdList | None = None
) -> tuple[BucketFiles, ...]:
    """The files of every bucket that has any, by bucket; see `buckets_of`.

    Args:
        state: what a reader reads of one table or partition.
        write_ids: that reader's list; with it, delete deltas that are only partly visible are
            looked through for dangling events, too.

    Raises:
        DanglingDeleteError: visible delete events point at a bucket that no live file is of.
        CorruptFileError: a footer or side file cannot be read as what it must be.
        UnsupportedFileError: a file cannot be read at all.
        LocationPermissionError: a file may not be read.
        StorageError: a file is gone, or reading failed otherwise.
    """
    (found,) = buckets_of([state], write_ids)
    return found


def buckets_of(
    states: Iterable[AcidState], write_ids: ValidWriteIdList | None = None
) -> tuple[tuple[BucketFiles, ...], ...]:
    """The files of every bucket of several partitions, in the partitions' order; by bucket in each.

    It costs a look at the footer of every delete file, and of every file whose name does not say
    what it is: each once, those of all partitions side by side. Whoever needs the answer again
    keeps it.

    Raises:
        HiveAcidError: as `bucket_files`.
    """
    places = places_of(states)
    unclear: dict[int, tuple[Footers, list[tuple[str, int]]]] = {}
    for place in places:
        _, files = unclear.setdefault(id(place.footers), (place.footers, []))
        files.extend(_unclear(place))
    for footers, files in unclear.values():
        footers.read(files)
    return tuple(_buckets(place, write_ids) for place in places)


def _unclear(place: Place) -> Iterator[tuple[str, int]]:
    """The files (path and length) that have to be looked into.

    Not among them are those that will be refused for their names, and those that are streamed
    into: how much of one counts is found out later.
    """
    for entry in place.state.originals:
        if isinstance(parse_file_name(entry.name), OriginalFileName):
            yield place.path(entry), entry.size_bytes
    for directory in place.state.live:
        for entry in () if directory.side_files else directory.files:
            is_clear = isinstance(parse_file_name(entry.name), BucketFileName)
            if directory.is_delete or not is_clear:
                yield place.path(entry), entry.size_bytes


def _buckets(place: Place, write_ids: ValidWriteIdList | None) -> tuple[BucketFiles, ...]:
    state, footers = place.state, place.footers
    first, rest, deletes = place.first_files(), place.delta_files(), place.delete_files()
    facts = {f.path: footers.of(f.path, f.length) for f in deletes}
    present = {f.bucket_id for f in (*first, *rest)}
    require_rows(state, present, [(f, facts[f.path]) for f in deletes], write_ids)
    deletes = tuple(_bounded(f, facts[f.path].write_ids) for f in deletes)

    hit, everywhere = _by_bucket_hit(deletes, facts)
    of_base, of_deltas = _by_bucket(first), _by_bucket(rest)
    return tuple(
        BucketFiles(
            bucket_id=bucket,
            base_inserts=tuple(of_base.get(bucket, ())),
            delta_inserts=tuple(of_deltas.get(bucket, ())),
            deletes=tuple(deletes[at] for at in sorted((*hit.get(bucket, ()), *everywhere))),
        )
        for bucket in sorted(present | {f.bucket_id for f in deletes})
    )


def _bounded(file: AcidFile, write_ids: tuple[WriteId, WriteId] | None) -> AcidFile:
    if write_ids is None:
        return file
    least, greatest = write_ids
    return dataclasses.replace(file, least_write_id=least, greatest_write_id=greatest)


def _by_bucket(files: Iterable[AcidFile]) -> dict[BucketId, list[AcidFile]]:
    found: dict[BucketId, list[AcidFile]] = {}
    for file in files:
        found.setdefault(file.bucket_id, []).append(file)
    return found


def _by_bucket_hit(
    deletes: Sequence[AcidFile], facts: Mapping[str, FooterFacts]
) -> tuple[dict[BucketId, list[int]], list[int]]:
    """The places of delete files by the buckets they may hit, and of those that may hit any."""
    hit: dict[BucketId, list[int]] = {}
    everywhere: list[int] = []
    for at, file in enumerate(deletes):
        found = facts[file.path].buckets
        if found is None:
            everywhere.append(at)
            continue
        for bucket in {file.bucket_id, *found}:
            hit.setdefault(bucket, []).append(at)
    return hit, everywhere
