"""Compacts one directory as a job does, bucket by bucket, without Spark and without a metastore."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, bucket_file
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.storage.acid.read.buckets import buckets_by_rows
from airflow_hiveacid.storage.acid.write.bucket_merge import (
    BucketCompaction,
    CompactedFile,
    compact_bucket,
    compact_part,
    split_compaction,
)
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.staging import Staging


def compact(
    root: Path,
    columns: Sequence[Column],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None = None,
    *,
    major: bool,
    part_bytes: int | None = None,
) -> tuple[str, ...]:
    """Compact whatever can be; gives the directories that were published.

    With `part_bytes`, each bucket is split into parts of this size, as large buckets are.
    """
    compactor = CompactorWriteIdList.of(write_ids)
    state = resolve(list_table(str(root)), compactor, txns)
    outputs = _outputs(state, major=major)
    staging = Staging(location=str(root), token=f"{outputs}".encode().hex()[-40:])
    for bucket in buckets_by_rows(state, compactor) if outputs else ():
        work = BucketCompaction(
            table=TableRef("default", "t"),
            columns=tuple(columns),
            bucket_id=bucket.bucket_id,
            inserts=bucket.inserts if major else bucket.delta_inserts,
            deletes=bucket.deletes,
            write_ids=compactor,
            outputs=outputs,
            staging=staging,
            options=WriterOptions(),
            shared=bucket.shared,
        )
        for file in compacted_files(work, part_bytes):
            staging.accept(file.directory, bucket_file(file.bucket_id), file.attempt)
            if major:
                staging.add_metadata_file(file.directory)
    staged = [str(o) for o in outputs if Path(staging.path_for(o)).exists()]
    published = tuple(name for name in staged if not (root / name).exists())
    staging.publish(published)
    staging.discard()
    return published


def compacted_files(work: BucketCompaction, part_bytes: int | None) -> list[CompactedFile]:
    """The files of one bucket, from one task or from one task a part."""
    split = None if part_bytes is None else split_compaction(work, part_bytes)
    if split is None:
        return [*compact_bucket(work, "a")]
    done = [compact_part(part, f"part-{number}") for number, part in enumerate(split.parts)]
    return [file for rest in split.rest(done) for file in compact_bucket(rest, "joined")]


def _outputs(state: AcidState, *, major: bool) -> tuple[BaseName | DeltaName, ...]:
    deltas = (*state.deltas, *state.delete_deltas)
    if major:
        highs = [d.high for d in state.live]
        return (BaseName(write_id=max(highs)),) if highs else ()
    if not deltas:
        return ()
    lows = [d.name.low for d in deltas if isinstance(d.name, DeltaName)]
    low, high = WriteId(min(lows)), WriteId(max(d.high for d in deltas))
    return tuple(DeltaName(low=low, high=high, is_delete=d) for d in (True, False))
