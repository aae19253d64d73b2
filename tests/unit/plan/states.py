"""States of directories whose files have sizes, as a compactor sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.names import looks_like_directory_name
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.format.table import TransactionalKind
from tests.unit.format.listings import ids


def state_of(
    sizes: Mapping[str, int] | Iterable[str],
    write_ids: str = "9:MAX::",
    *,
    kind: TransactionalKind = TransactionalKind.FULL_ACID,
    modified_s: float | None = None,
    has_marks: bool = True,
) -> AcidState:
    """Files with their sizes, in bytes; a bare base or delta gets one bucket file.

    With `has_marks`, each base is marked as the result of a compaction.
    """
    given = sizes if isinstance(sizes, Mapping) else dict.fromkeys(sizes, 5)
    files = tuple(
        FileEntry(
            path=name if not _is_bare(name) else f"{name}/bucket_00000",
            size_bytes=size,
            modified_s=modified_s,
        )
        for name, size in given.items()
    )
    tops = {file.path.partition("/")[0] for file in files}
    marks = {top: "compacted" for top in tops if has_marks and top.startswith("base_")}
    listing = Listing(location="/t", files=files, metadata=marks)
    return resolve(listing, CompactorWriteIdList.of(ids(write_ids)), None, kind)


def _is_bare(name: str) -> bool:
    return "/" not in name and looks_like_directory_name(name)
