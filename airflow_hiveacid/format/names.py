"""The grammar of directory and file names: the only place that knows underscores and zero padding.

Takes single path components; gives parsed names, and prints them the way Hive writes them. Reading
is as lenient as Hive's (AcidUtils.parseBase, parsedDelta: any padding), printing is canonical. Must
not know what a listing holds, nor which names are visible.

Example:
    >>> str(DeltaName(low=WriteId(7), high=WriteId(7), statement_id=StatementId(0)))
    'delta_0000007_0000007_0000'
    >>> parse_directory_name("base_5")
    BaseName(write_id=5, visibility_txn_id=None)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import LONG_MAX, BucketId, StatementId, TxnId, WriteId
from airflow_hiveacid.format.table import TransactionalKind

ACID_VERSION_FILE: Final = "_orc_acid_version"
"""One byte, ASCII 2, in every directory that a full-ACID writer made (AcidUtils.OrcAcidVersion)."""

METADATA_FILE: Final = "_metadata_acid"
"""JSON with `thisFileVersion` and `dataFormat`; marks a compactor's base (AcidMetaDataFile)."""

STAGING_PREFIX: Final = "_tmp_hiveacid_"
"""Start of our staging directories; hidden, so no reader looks inside."""

FLUSH_LENGTH_SUFFIX: Final = "_flush_length"
"""End of the side file that says how much of a streaming bucket file is committed."""

COMPACTED_FORMAT: Final = "compacted"
"""`dataFormat` of a major compactor's base."""

MINIMUM_BASE: Final = WriteId(-LONG_MAX - 1)
"""Long.MIN_VALUE: the base of an old compaction that had only originals; always valid."""

# No file system of Hadoop's has longer ones, and Python reads no number of thousands of digits.
_LONGEST_NAME: Final = 255
_DIRECTORY_PREFIXES: Final = ("base_", "delta_", "delete_delta_")
_BASE: Final = re.compile(r"base_(-?[0-9]+)(?:_v([0-9]+))?\Z")
_DELTA: Final = re.compile(r"(delete_)?delta_([0-9]+)_([0-9]+)(?:_([0-9]+))?(?:_v([0-9]+))?\Z")
# Hive >= 4 direct insert appends the attempt, unpadded (AcidUtils.BUCKET_PATTERN).
_BUCKET_FILE: Final = re.compile(r"bucket_([0-9]+)(?:_([0-9]+))?\Z")
_ORIGINAL_FILE: Final = re.compile(r"([0-9]+)_([0-9]+)(?:_copy_([0-9]+))?\Z")
_STAGING_TOKEN: Final = re.compile(r"[A-Za-z0-9._-]+\Z")


def _check_long(name: object, *values: int | None) -> None:
    if any(v is not None and not MINIMUM_BASE <= v <= LONG_MAX for v in values):
        raise InvalidNameError(name=repr(name), what="name: a number is beyond 64 bits")


def _visibility_suffix(txn_id: TxnId | None) -> str:
    return "" if txn_id is None else f"_v{txn_id:07d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseName:
    """`base_<write id>`: every row up to and including that write ID.

    `visibility_txn_id` is the compactor's transaction: unseen until that one commits. None stands
    for no suffix and for `_v0000000`, which mean the same (AcidUtils.addVisibilitySuffix).
    """

    write_id: WriteId
    visibility_txn_id: TxnId | None = None

    def __post_init__(self) -> None:
        _check_long(self.write_id, self.write_id, self.visibility_txn_id)

    def __str__(self) -> str:
        return f"base_{self.write_id:07d}{_visibility_suffix(self.visibility_txn_id)}"

    @property
    def high(self) -> WriteId:
        """The highest write ID that it covers, as a delta's; inclusive."""
        return self.write_id

    def under(self, root: str) -> str:
        """The path of this directory below a table or partition root."""
        return f"{root.rstrip('/')}/{self}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaName:
    """`delta_<low>_<high>[_<statement>]`, or `delete_delta_...`: events of write IDs low..high.

    Both ends are inclusive. Compactors and streaming writers give no statement ID.
    """

    low: WriteId
    high: WriteId
    statement_id: StatementId | None = None
    visibility_txn_id: TxnId | None = None
    is_delete: bool = False

    def __post_init__(self) -> None:
        _check_long(self, self.low, self.high, self.statement_id, self.visibility_txn_id)
        if not 0 <= self.low <= self.high:
            raise InvalidNameError(name=f"{self.low}..{self.high}", what="range of write IDs")

    def __str__(self) -> str:
        prefix = "delete_delta" if self.is_delete else "delta"
        statement = "" if self.statement_id is None else f"_{self.statement_id:04d}"
        suffix = statement + _visibility_suffix(self.visibility_txn_id)
        return f"{prefix}_{self.low:07d}_{self.high:07d}{suffix}"

    def holds(self, other: BaseName | DeltaName) -> bool:
        """Whether, by its name, it has all events of another one, or of itself; of no base."""
        return (
            isinstance(other, DeltaName)
            and self.is_delete == other.is_delete
            and self.low <= other.low
            and other.high <= self.high
        )

    def under(self, root: str) -> str:
        """The path of this directory below a table or partition root."""
        return f"{root.rstrip('/')}/{self}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFileName:
    """`bucket_<bucket>[_<attempt>]`: a file with the ACID columns. Ours never carry an attempt."""

    bucket_id: BucketId
    attempt_id: int | None = None

    def __str__(self) -> str:
        attempt = "" if self.attempt_id is None else f"_{self.attempt_id}"
        return f"bucket_{self.bucket_id:05d}{attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalFileName:
    """`<bucket>_<attempt>[_copy_<n>]`: a file without ACID columns."""

    bucket_id: BucketId
    copy: int | None = None
    attempt_id: int = 0

    def __str__(self) -> str:
        copy = "" if self.copy is None else f"_copy_{self.copy}"
        return f"{self.bucket_id:06d}_{self.attempt_id}{copy}"


DirectoryName = BaseName | DeltaName
FileName = BucketFileName | OriginalFileName


def parse_directory_name(name: str) -> DirectoryName | None:
    """Read one directory name; None when it names no base, delta or delete delta.

    Example:
        >>> print(parse_directory_name("delete_delta_2_4_v17"))
        delete_delta_0000002_0000004_v0000017
    """
    if len(name) > _LONGEST_NAME:
        return None
    try:
        return _parse_base(name) or _parse_delta(name)
    except InvalidNameError:
        return None


def _parse_base(name: str) -> BaseName | None:
    match = _BASE.match(name)
    if match is None:
        return None
    return BaseName(
        write_id=WriteId(int(match[1])), visibility_txn_id=TxnId(int(match[2] or 0)) or None
    )


def _parse_delta(name: str) -> DeltaName | None:
    match = _DELTA.match(name)
    if match is None:
        return None
    return DeltaName(
        low=WriteId(int(match[2])),
        high=WriteId(int(match[3])),
        statement_id=None if match[4] is None else StatementId(int(match[4])),
        visibility_txn_id=TxnId(int(match[5] or 0)) or None,
        is_delete=match[1] is not None,
    )


def looks_like_directory_name(name: str) -> bool:
    """Whether a name starts like a base or delta, well-formed or not: Hive fails on the latter."""
    return name.startswith(_DIRECTORY_PREFIXES)


def parse_file_name(name: str) -> FileName | None:
    """Read one file name; None when it is neither a bucket file nor an original file.

    Example:
        >>> parse_file_name("000001_0_copy_2")
        OriginalFileName(bucket_id=1, copy=2, attempt_id=0)
    """
    if len(name) > _LONGEST_NAME:
        return None
    match = _BUCKET_FILE.match(name)
    if match is not None:
        attempt = None if match[2] is None else int(match[2])
        return BucketFileName(bucket_id=BucketId(int(match[1])), attempt_id=attempt)
    match = _ORIGINAL_FILE.match(name)
    if match is not None:
        copy = None if match[3] is None else int(match[3])
        return OriginalFileName(
            bucket_id=BucketId(int(match[1])), copy=copy, attempt_id=int(match[2])
        )
    return None


def bucket_file(bucket_id: BucketId) -> str:
    """The name of our file of this bucket, which carries no attempt: 3.1 and Trino cannot read one.

    Example:
        >>> bucket_file(BucketId(0))
        'bucket_00000'
    """
    return str(BucketFileName(bucket_id=bucket_id))


def data_file(bucket_id: BucketId, kind: TransactionalKind) -> str:
    """The name of our file of this bucket, or of this writer's rows in an insert-only table.

    Example:
        >>> data_file(BucketId(1), TransactionalKind.INSERT_ONLY)
        '000001_0'
    """
    if kind is TransactionalKind.INSERT_ONLY:
        return str(OriginalFileName(bucket_id=bucket_id))
    return bucket_file(bucket_id)


def is_hidden(name: str) -> bool:
    """Whether readers pass over a path component (AcidUtils.hiddenFileFilter)."""
    return name.startswith(("_", "."))


def staging_directory(token: str) -> str:
    """The name of the staging directory of one attempt.

    Raises:
        InvalidNameError: the token is empty or holds more than letters, digits, `.`, `_` and `-`.
    """
    if not _STAGING_TOKEN.match(token):
        raise InvalidNameError(name=token, what="staging token")
    return f"{STAGING_PREFIX}{token}"
