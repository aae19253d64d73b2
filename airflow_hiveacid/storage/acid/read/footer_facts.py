"""What the footer of a file says of its rows: whether they have ACID columns, how many, whose.

Takes files; gives a few facts of each, and lets the footer go. Must not know directories.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.bucket_codec import MAX_BUCKET_ID, decode
from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import BucketId, BucketProperty, WriteId
from airflow_hiveacid.storage.acid.read.acid_file import has_acid_columns
from airflow_hiveacid.storage.acid.row_schema import IDENTITY_COLUMN_IDS
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.filesystem import file_errors
from airflow_hiveacid.storage.stores.locations import client_of
from airflow_hiveacid.storage.stores.threads import each_in_threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow import fs as pafs

    from airflow_hiveacid.storage.orc.footer import OrcTail

_WRITE_ID_COLUMN_ID: Final = IDENTITY_COLUMN_IDS[0]
_BUCKET_COLUMN_ID: Final = IDENTITY_COLUMN_IDS[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterFacts:
    """What a footer says; `buckets` between the least and greatest property, None if unknown.

    `write_ids` are the least and greatest original write ID, None if unknown.
    """

    is_acid: bool
    rows: int
    buckets: frozenset[BucketId] | None
    write_ids: tuple[WriteId, WriteId] | None


def footer_facts(fs: pafs.FileSystem, path: str, length: int) -> FooterFacts:
    """What the footer of one file says.

    Raises:
        CorruptFileError, UnsupportedFileError: it cannot be believed.
        LocationPermissionError: the file may not be read.
        StorageError: it is gone, or reading failed otherwise.
    """
    with file_errors("read", path):
        tail = read_tail(fs, path, length)
    is_acid = has_acid_columns(tail)
    found = tail.integer_range(_BUCKET_COLUMN_ID) if is_acid else None
    return FooterFacts(
        is_acid=is_acid,
        rows=tail.rows,
        buckets=frozenset() if not tail.rows else None if found is None else _between(*found),
        write_ids=_write_ids(tail) if is_acid else None,
    )


def _write_ids(tail: OrcTail) -> tuple[WriteId, WriteId] | None:
    """The original write IDs of the events, if the statistics are of all of them."""
    statistics = tail.statistics(_WRITE_ID_COLUMN_ID)
    found = tail.integer_range(_WRITE_ID_COLUMN_ID)
    if found is None or statistics is None or statistics.values != tail.rows:
        return None
    return WriteId(found[0]), WriteId(found[1])


def _between(least: int, most: int) -> frozenset[BucketId] | None:
    """The buckets that properties from `least` to `most` can be of; None when the codecs differ.

    None also where there are more than a table can have: plain numbers go up to half a billion.
    """
    try:
        first, last = decode(BucketProperty(least)), decode(BucketProperty(most))
    except InvalidNameError:
        return None
    if (
        first.codec_version != last.codec_version
        or last.bucket_id - first.bucket_id > MAX_BUCKET_ID
    ):
        return None
    return frozenset(map(BucketId, range(first.bucket_id, last.bucket_id + 1)))


@dataclass(frozen=True, slots=True)
class Footers:
    """The facts of the files of one plan on one store; each footer is read once.

    Not to be kept for longer: a file's name may come back with another file.
    """

    store: str
    _known: dict[str, FooterFacts] = field(default_factory=dict)

    def read(self, files: Sequence[tuple[str, int]]) -> None:
        """Read many footers (path and length), side by side: they are small and may be far away.

        Raises:
            HiveAcidError: as `footer_facts`.
        """
        missing = [(path, length) for path, length in files if path not in self._known]
        fs = client_of(self.store)
        found = each_in_threads(lambda one: footer_facts(fs, *one), missing)
        for (path, _), one in zip(missing, found, strict=True):
            self._known[path] = one

    def of(self, path: str, length: int) -> FooterFacts:
        """The facts of one file.

        Raises:
            HiveAcidError: as `footer_facts`.
        """
        if path not in self._known:
            self._known[path] = footer_facts(client_of(self.store), path, length)
        return self._known[path]
