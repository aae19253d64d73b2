"""Listings and lists of IDs in the short notation of the scenarios.

`listing("base_5 delta_6_6_0/bucket_00000_0 delta_7_7/ 000000_0")`: a bare base or delta gets one
bucket file, a path is a file of 100 bytes or of those behind `:`, a trailing slash is an empty
directory.

`cases/selections.txt` has cases: a name behind `# `; a listing behind `read`, its compacted bases
and other marked directories; the table's kind; the write IDs of a reader (`at`) or of a compactor
(`compact`), and the transactions; and, indented, what `shown_state` says of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.directories import AcidDirectory, FileEntry, Listing
from airflow_hiveacid.format.errors import (
    CorruptFileError,
    NotEnoughHistoryError,
    UnsupportedFileError,
)
from airflow_hiveacid.format.names import looks_like_directory_name
from airflow_hiveacid.format.snapshot import (
    CompactorWriteIdList,
    RangeVisibility,
    ValidTxnList,
    ValidWriteIdList,
)
from airflow_hiveacid.format.table import TransactionalKind

MAX = "9223372036854775807"


def listing(
    text: str, *, compacted: Iterable[str] = (), metadata: Mapping[str, str] | None = None
) -> Listing:
    files: list[FileEntry] = []
    directories: list[str] = []
    for word in text.split():
        entry, _, size = word.partition(":")
        if entry.endswith("/"):
            directories.append(entry.rstrip("/"))
            continue
        is_bare = "/" not in entry and looks_like_directory_name(entry)
        path = f"{entry}/bucket_00000" if is_bare else entry
        directories.extend(parents(path))
        files.append(FileEntry(path=path, size_bytes=int(size or 100)))
    marks = dict.fromkeys(compacted, "compacted") | dict(metadata or {})
    for directory in marks:
        files.append(FileEntry(path=f"{directory}/_metadata_acid", size_bytes=48))
        directories.append(directory)
    return Listing(
        location="/t", files=tuple(files), directories=tuple(directories), metadata=marks
    )


def parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def ids(text: str) -> ValidWriteIdList:
    """`3:MAX::2` without the table's name."""
    return ValidWriteIdList.parse(f"db.t:{text.replace('MAX', MAX)}")


def txns(text: str) -> ValidTxnList:
    return ValidTxnList.parse(text.replace("MAX", MAX))


def read(
    names: str,
    snap: str,
    transactions: str | None = None,
    *,
    compacted: Iterable[str] = (),
) -> AcidState:
    visible = None if transactions is None else txns(transactions)
    return resolve(listing(names, compacted=compacted), ids(snap), visible)


def texts(directories: Iterable[AcidDirectory | FileEntry]) -> list[str]:
    return [d.text if isinstance(d, AcidDirectory) else d.path for d in directories]


def live(state: AcidState) -> list[str]:
    """Base, then deltas and delete deltas in Hive's common order."""
    base = [] if state.base is None else [state.base.text]
    walked = sorted(
        (*state.deltas, *state.delete_deltas), key=lambda d: (d.name.low, -d.name.high, d.text)
    )
    return base + texts(walked)


def shown_state(case: str) -> str:
    """The directories by their reasons, and those with a hidden or open part; or the error."""
    given = dict(line.partition(" ")[::2] for line in case.splitlines())
    marks = dict(mark.split("=") for mark in given.get("metadata", "").split())
    files = listing(given["read"], compacted=given.get("compacted", "").split(), metadata=marks)
    write_ids = ids(given.get("at") or given["compact"])
    if "compact" in given:
        write_ids = CompactorWriteIdList.of(write_ids)
    visible = txns(given["txns"]) if "txns" in given else None
    kind = TransactionalKind(given.get("kind", "full_acid"))
    try:
        state = resolve(files, write_ids, visible, kind)
    except (CorruptFileError, NotEnoughHistoryError, UnsupportedFileError) as error:
        return f"{error}"
    shown = {"live": live(state)}
    for directory in (*state.obsolete_directories, *state.aborted, *state.invisible):
        shown.setdefault(directory.why, []).append(directory.text)
        assert directory.superseded_by in (None, directory.why.rpartition(" ")[2])
    shown["original files"] = texts(state.originals)
    shown["obsolete original files"] = texts(state.obsolete_originals)
    for unknown in state.unknown:
        shown.setdefault(unknown.why, []).append(unknown.path)
    files_of = {d.text: texts(d.files) for d in state.live}
    shown["without files"] = [name for name, paths in files_of.items() if not paths]
    unusual = (paths for name, paths in files_of.items() if paths != [f"{name}/bucket_00000"])
    shown["data files"] = list(chain.from_iterable(unusual))
    for directory in state.live:
        try:
            directory.require_known_files("/t")
        except UnsupportedFileError as error:
            shown.setdefault(f"{error}", []).append(directory.text)
    shown["side files"] = [f.path for d in state.live for f in d.side_files]
    shown["may be raw"] = texts(d for d in state.live if d.may_be_raw)
    shown["visible in part"] = texts(d for d in state.live if d.visibility is RangeVisibility.SOME)
    shown["unresolved"] = texts(d for d in state.directories if not d.is_resolved)
    return "\n".join(f"{why}: {' '.join(names)}" for why, names in shown.items() if names)
