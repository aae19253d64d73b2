"""Parse and print directory and file names; only this module handles underscores and padding.

The directory names of partitions are in `format.table`.

The string form of a parsed name is the name that Hive writes. Like Hive's (AcidUtils.parseBase,
parsedDelta), the parser accepts any padding.

Example:
    >>> str(DeltaName(low=WriteId(7), high=WriteId(7), statement_id=StatementId(0)))
    'delta_0000007_0000007_0000'
    >>> parse_directory_name("base_5")
    BaseName(write_id=5, visibility_txn_id=None)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import LONG_MAX, BucketId, StatementId, TxnId, WriteId
from airflow_hiveacid.format.table import TransactionalKind

ACID_VERSION_FILE: Final = "_orc_acid_version"
"""The name of a file that a full-ACID writer adds to each directory that it creates. The file
contains one byte, ASCII 2 (AcidUtils.OrcAcidVersion)."""

METADATA_FILE: Final = "_metadata_acid"
"""The JSON file that marks a compactor's base, with the fields of Hive's AcidMetaDataFile."""

STAGING_PREFIX: Final = "_tmp_hiveacid_"
"""Prefix of our staging directories; readers ignore directories with this prefix."""

_ATTEMPTS: Final = "_attempts"
_BELOW: Final = 4
"""The number of path parts from `_attempts` on: `_attempts`, attempt, directory, file."""

FLUSH_LENGTH_SUFFIX: Final = "_flush_length"
"""Suffix of a side file; a side file contains the committed length of a streamed bucket file."""

COMPACTED_FORMAT: Final = "compacted"
"""The `dataFormat` in the metadata of a major compactor's base."""

MINIMUM_BASE: Final = WriteId(-LONG_MAX - 1)
"""Long.MIN_VALUE: old Hive versions gave it to bases of original files only; always valid."""

# Hadoop's file systems do not allow longer names, and `int` refuses very long numbers.
_LONGEST_NAME: Final = 255
_DIRECTORY_PREFIXES: Final = ("base_", "delta_", "delete_delta_")
_BASE: Final = re.compile(r"base_(-?[0-9]+)(?:_v([0-9]+))?\Z")
_DELTA: Final = re.compile(r"(delete_)?delta_([0-9]+)_([0-9]+)(?:_([0-9]+))?(?:_v([0-9]+))?\Z")
# For direct inserts, Hive >= 4 appends the attempt ID without padding (AcidUtils.BUCKET_PATTERN).
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
    """`base_<write id>`: a directory with all rows up to that write ID, inclusive.

    `visibility_txn_id` is the compactor's transaction, which must be committed for a reader to see
    the base. None means no suffix, or the equivalent `_v0000000` (AcidUtils.addVisibilitySuffix).
    """

    write_id: WriteId
    visibility_txn_id: TxnId | None = None

    def __post_init__(self) -> None:
        _check_long(self.write_id, self.write_id, self.visibility_txn_id)

    def __str__(self) -> str:
        return f"base_{self.write_id:07d}{_visibility_suffix(self.visibility_txn_id)}"

    @property
    def high(self) -> WriteId:
        """The highest write ID that the base covers, inclusive, as in `DeltaName`."""
        return self.write_id

    @property
    def is_delete(self) -> bool:
        """False: a base has no delete events. `DeltaName` also has the attribute `is_delete`."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaName:
    """`delta_<low>_<high>[_<statement>]` or `delete_delta_...`: events of write IDs low..high.

    Low and high are inclusive. Names from compactors and streaming writers have no statement ID.
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
        """Return whether this delta covers a delta of the same kind, with all its write IDs."""
        return (
            isinstance(other, DeltaName)
            and self.is_delete == other.is_delete
            and self.low <= other.low
            and other.high <= self.high
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFileName:
    """`bucket_<bucket>[_<attempt>]`: a file with the ACID columns. Our names have no attempt ID."""

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
    """Parse a directory name; return None if it is not a base, delta or delete delta.

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
    """Return whether a name has the prefix of a base or delta; Hive fails if it cannot parse it."""
    return name.startswith(_DIRECTORY_PREFIXES)


def parse_file_name(name: str) -> FileName | None:
    """Parse a file name; return None if it is neither a bucket file nor an original file.

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
    """Return our file name for a bucket, without an attempt ID: Hive 3.1 and Trino parse none.

    Example:
        >>> bucket_file(BucketId(0))
        'bucket_00000'
    """
    return str(BucketFileName(bucket_id=bucket_id))


def data_file(bucket_id: BucketId, kind: TransactionalKind) -> str:
    """Return our file name for a bucket or, in an insert-only table, for a writer.

    Example:
        >>> data_file(BucketId(1), TransactionalKind.INSERT_ONLY)
        '000001_0'
    """
    if kind is TransactionalKind.INSERT_ONLY:
        return str(OriginalFileName(bucket_id=bucket_id))
    return bucket_file(bucket_id)


def stays_below(path: str) -> bool:
    """Return whether a relative path leads to something below its directory, and nowhere else.

    Example:
        >>> [stays_below(path) for path in ("a/b", "../a", "a/..", "/a", "a//b", "")]
        [True, False, False, False, False, False]
    """
    return "\0" not in path and not {"", ".", ".."}.intersection(path.split("/"))


def is_hidden(name: str) -> bool:
    """Return whether readers ignore a path component (AcidUtils.hiddenFileFilter)."""
    return name.startswith(("_", "."))


def is_below_hidden(path: str) -> bool:
    """Return whether a name in a path is hidden, so that readers ignore the file."""
    return any(map(is_hidden, path.split("/")))


def is_manifest(path: str) -> bool:
    """Return whether a file is a manifest of a Hive 4 task, such as `-tmp.delta_4_4_1/0.manifest`.

    It lists the files of a task, and has no rows; Hive removes it when its statement ends. Readers
    do not ignore names that begin with `-tmp.` (Utilities, AcidUtils.hiddenFileFilter), so without
    this rule it would be an original file.
    """
    directory, _, name = path.rpartition("/")
    return name.endswith(".manifest") and directory.rpartition("/")[2].startswith("-tmp.")


def staging_directory(token: str) -> str:
    """Return the name of the staging directory of one attempt.

    Raises InvalidNameError for an empty token, or one with other than letters, digits, `.`, `_`,
    `-`.
    """
    if not _STAGING_TOKEN.match(token):
        raise InvalidNameError(name=token, what="staging token")
    return f"{STAGING_PREFIX}{token}"


class AttemptPath(NamedTuple):
    """The final path of a task attempt's file, and the attempt that wrote it.

    `<home>/_tmp_hiveacid_<token>/<partition>/_attempts/<attempt>/<directory>/<file>` becomes
    `<home>/<partition>/<directory>/<file>`. On a store without renames, the task uploads the file
    to the final path, where it stays invisible until it is published.
    """

    final: str
    attempt: str


def attempt_path(root: str, attempt: str, directory: object, file_name: str) -> str:
    """Return the path at which an attempt writes a file before the directory is published."""
    return f"{root}/{_ATTEMPTS}/{attempt}/{directory}/{file_name}"


def attempt_of(path: str) -> AttemptPath | None:
    """Parse the path of an attempt's file; return None for any other path.

    Example:
        >>> path = "lake/t/_tmp_hiveacid_1/p=2/_attempts/9f/delta_1_1/bucket_00000"
        >>> attempt_of(path)
        AttemptPath(final='lake/t/p=2/delta_1_1/bucket_00000', attempt='9f')
        >>> attempt_of("lake/t/delta_1_1/bucket_00000")
    """
    parts = path.split("/")
    root_parts, attempt_parts = parts[:-_BELOW], parts[-_BELOW:]
    if len(attempt_parts) < _BELOW or attempt_parts[0] != _ATTEMPTS:
        return None
    for index in range(len(root_parts) - 1, -1, -1):
        if root_parts[index].startswith(STAGING_PREFIX):
            rest = [*root_parts[:index], *root_parts[index + 1 :], *attempt_parts[2:]]
            return AttemptPath("/".join(rest), attempt_parts[1])
    return None
