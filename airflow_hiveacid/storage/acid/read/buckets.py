"""Group the files of a snapshot by bucket, each with the delete files that may affect it.

The input is the visible directories (`AcidState`). The output is `BucketFiles`. Before any row is
read, this module finds the buckets that delete events affect. The module checks that these buckets
have files. This module must not read rows of the table.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.names import BucketFileName, OriginalFileName, parse_file_name
from airflow_hiveacid.storage.acid.read.dangling import require_rows
from airflow_hiveacid.storage.acid.read.files import RootFiles, roots_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_hiveacid.format.ids import BucketId, WriteId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.state.acid_state import AcidState
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
    from airflow_hiveacid.storage.acid.read.footer_facts import FooterFacts, Footers


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The files of one bucket that are visible in one snapshot.

    `base_inserts` are the files of the base or the original files. `delta_inserts` are the files of
    deltas. `deletes` are all delete files that may contain events for rows of this bucket. A delete
    file may also contain events for other buckets, because minor compaction in Hive 3.1 copies such
    events.
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
        """Return the delete files that may contain events for rows of one file.

        Without this selection, a reader of a thousand deltas would read a thousand delete deltas
        for each delta.
        """
        found = tuple(file for file in self.deletes if file.may_overlap(data))
        return self.deletes if len(found) == len(self.deletes) else found


def bucket_files(
    state: AcidState, write_ids: ValidWriteIdList | None = None
) -> tuple[BucketFiles, ...]:
    """Return the files of one table or partition, grouped by bucket; see `buckets_of`.

    Args:
        state: the visible files of the table or partition.
        write_ids: the reader's write ID list. With this list, the function also checks partly
            visible delete deltas for dangling delete events.

    Raises:
        DanglingDeleteError: visible delete events belong to a bucket without a live file.
        CorruptFileError: a footer or side file is damaged.
        UnsupportedFileError: a file has an unsupported name or format.
        LocationPermissionError: reading a file is not permitted.
        StorageError: a file is missing, or reading failed for a different reason.
    """
    (found,) = buckets_of([state], write_ids)
    return found


def buckets_of(
    states: Iterable[AcidState], write_ids: ValidWriteIdList | None = None
) -> tuple[tuple[BucketFiles, ...], ...]:
    """Return the files of several partitions, in the given order, each grouped by bucket.

    The function reads the footer of every delete file. The function also reads a file's footer if
    the file's name does not show whether the file has ACID columns. The function reads each footer
    only once, for all partitions in parallel. Callers that need the result several times should
    store it.

    Raises:
        HiveAcidError: see `bucket_files`.
    """
    roots = roots_of(states)
    unclear: dict[int, tuple[Footers, list[tuple[str, int]]]] = {}
    for root_files in roots:
        _, files = unclear.setdefault(id(root_files.footers), (root_files.footers, []))
        files.extend(_unclear(root_files))
    for footers, files in unclear.values():
        footers.read(files)
    return tuple(_buckets(root_files, write_ids) for root_files in roots)


def _unclear(root_files: RootFiles) -> Iterator[tuple[str, int]]:
    """Yield the path and length of each file whose footer must be read.

    Files with invalid names are skipped. Files that are still open for streaming are also skipped.
    The committed length of such files is read later.
    """
    for entry in root_files.state.originals:
        if isinstance(parse_file_name(entry.name), OriginalFileName):
            yield root_files.path(entry), entry.size_bytes
    for directory in root_files.state.live:
        for entry in () if directory.side_files else directory.files:
            is_clear = isinstance(parse_file_name(entry.name), BucketFileName)
            if directory.is_delete or not is_clear:
                yield root_files.path(entry), entry.size_bytes


def _buckets(root_files: RootFiles, write_ids: ValidWriteIdList | None) -> tuple[BucketFiles, ...]:
    state, footers = root_files.state, root_files.footers
    first, rest, deletes = (
        root_files.first_files(),
        root_files.delta_files(),
        root_files.delete_files(),
    )
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
    """Return the indices of delete files by bucket, and of delete files with unknown buckets."""
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
