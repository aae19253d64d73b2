"""Facts from a file's footer: whether it has ACID columns, its rows, buckets and write IDs.

This module must not interpret directory names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.bucket_codec import MAX_BUCKET_ID, decode
from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import BucketId, BucketProperty, WriteId
from airflow_hiveacid.storage.acid.read.acid_file import has_acid_columns
from airflow_hiveacid.storage.acid.row_schema import IDENTITY_COLUMN_IDS
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.locations import client_of
from airflow_hiveacid.storage.stores.threads import each_in_threads

_WRITE_ID_COLUMN_ID: Final = IDENTITY_COLUMN_IDS[0]
_BUCKET_COLUMN_ID: Final = IDENTITY_COLUMN_IDS[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterFacts:
    """The facts from one file's footer.

    `buckets` contains all buckets between the least and the greatest bucket property. `write_ids`
    is the pair of the least and the greatest original write ID. Unknown fields are None.
    """

    is_acid: bool
    rows: int
    buckets: frozenset[BucketId] | None
    write_ids: tuple[WriteId, WriteId] | None


def footer_facts(fs: pafs.FileSystem, path: str, length: int) -> FooterFacts:
    """Return the facts from one file's footer."""
    tail = read_tail(fs, path, length)
    is_acid = has_acid_columns(tail)
    bounds = tail.integer_range(_BUCKET_COLUMN_ID) if is_acid else None
    return FooterFacts(
        is_acid=is_acid,
        rows=tail.rows,
        buckets=frozenset() if not tail.rows else None if bounds is None else _between(*bounds),
        write_ids=_write_ids(tail) if is_acid else None,
    )


def _write_ids(tail: OrcTail) -> tuple[WriteId, WriteId] | None:
    """Return the least and greatest original write ID; None if statistics are incomplete."""
    statistics = tail.statistics(_WRITE_ID_COLUMN_ID)
    bounds = tail.integer_range(_WRITE_ID_COLUMN_ID)
    if bounds is None or statistics is None or statistics.values != tail.rows:
        return None
    return WriteId(bounds[0]), WriteId(bounds[1])


def _between(least: int, most: int) -> frozenset[BucketId] | None:
    """Return the buckets of the bucket properties `least` to `most`; None if unknown.

    The buckets are unknown if `least` and `most` have different codecs, or if the range exceeds the
    maximum number of buckets of a table. Without this limit, a range of V0 properties could give a
    set of half a billion numbers.
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
    """A cache of footer facts for one plan on one store; each footer is read once.

    Do not keep the cache longer than the plan, because a different file may later have the same
    name.
    """

    store: str
    _facts: dict[str, FooterFacts] = field(default_factory=dict)

    def read(self, files: Sequence[tuple[str, int]]) -> None:
        """Read the footers of files (path and length) in parallel; each read may be slow."""
        missing = [(path, length) for path, length in files if path not in self._facts]
        fs = client_of(self.store)
        footers = each_in_threads(lambda file: footer_facts(fs, *file), missing)
        for (path, _), facts in zip(missing, footers, strict=True):
            self._facts[path] = facts

    def of(self, path: str, length: int) -> FooterFacts:
        """Return the facts about one file."""
        if path not in self._facts:
            self._facts[path] = footer_facts(client_of(self.store), path, length)
        return self._facts[path]
