"""Distinct types for the kinds of IDs, and the bucket and statement IDs in the `bucket` column.

With separate types, mypy reports a mix-up. Values are plain `int` at run time, except an attempt
ID.

The encoding is that of Hive's class BucketCodec. The row ID contains the raw integer.

Example:
    >>> encode(BucketId(3), StatementId(2))
    537067522
    >>> decode(BucketProperty(537067522)).bucket_id
    3
"""

from __future__ import annotations

import enum
import re
import uuid
from dataclasses import dataclass
from typing import Final, NewType, Self

from airflow_hiveacid.format.errors import InvalidNameError

TxnId = NewType("TxnId", int)
"""Metastore-wide transaction ID; directory names contain it only after `_v`."""

WriteId = NewType("WriteId", int)
"""Per-table ID, allocated in a transaction; it is stored in rows and in directory names."""

LockId = NewType("LockId", int)
"""ID of one lock request in the metastore."""

BucketId = NewType("BucketId", int)
"""Number of a bucket file, 0..4095; in an unbucketed table the number of the writer."""

StatementId = NewType("StatementId", int)
"""0-based number of a statement within its transaction, 0..4095."""

BucketProperty = NewType("BucketProperty", int)
"""The encoded integer in the `bucket` column; it is part of the row ID."""

RowId = NewType("RowId", int)
"""Number of a row among the rows with the same original write ID and bucket property."""

LONG_MAX: Final = (1 << 63) - 1
"""The metastore's value for "no open ID" (java.lang.Long.MAX_VALUE)."""

CONVERTED_WRITE_ID: Final = WriteId(10_000_000)
"""The version of a converted table before its first write. When Hive makes a flat table
transactional, it skips the write IDs up to this one."""

ATTEMPT_PATTERN: Final = r"(?P<try_number>\d{1,6})-(?P<nonce>[0-9a-f]{12})"
"""The pattern of `str(AttemptId)`, for use in larger patterns."""

_PATTERN: Final = re.compile(ATTEMPT_PATTERN)
_NONCE: Final = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class AttemptId:
    """One submission of a job: the task's try number and a unique nonce.

    A task that runs again keeps its job key, but every submission is a new attempt. The job
    description, the locks, the staging directories and the ledger show which attempt made them. A
    task's try number never decreases, even if it is cleared. 0 means that there is no task.

    Example:
        >>> AttemptId.parse("2-00c0ffee0123")
        AttemptId(try_number=2, nonce='00c0ffee0123')
    """

    try_number: int
    nonce: str

    def __post_init__(self) -> None:
        if self.try_number < 0 or not _NONCE.fullmatch(self.nonce):
            raise InvalidNameError(name=f"{self.try_number}-{self.nonce}", what="attempt ID")

    @classmethod
    def new(cls, try_number: int = 0) -> Self:
        """Return the ID of a new attempt."""
        return cls(try_number, uuid.uuid4().hex[:12])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the string form of an attempt ID. Raises InvalidNameError."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise InvalidNameError(name=text, what="attempt ID (expected <try>-<12 hex digits>)")
        return cls(int(match["try_number"]), match["nonce"])

    def __str__(self) -> str:
        return f"{self.try_number}-{self.nonce}"

    def may_end(self, other: AttemptId) -> bool:
        """Return whether a kill of this attempt may also end `other`."""
        return other == self or other.try_number < self.try_number


MAX_BUCKET_ID: Final = 4095
MAX_STATEMENT_ID: Final = 4095

BUCKET_SHIFT: Final = 16
VERSION_SHIFT: Final = 29
_INT_MAX: Final = (1 << 31) - 1


class BucketCodec(enum.IntEnum):
    """The version in the top three bits. Hive 3 and later write V1; V0 is a plain bucket ID."""

    V0 = 0
    V1 = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketIdentity:
    """The parts of a bucket property; in V0 the statement ID is 0."""

    codec_version: BucketCodec
    bucket_id: BucketId
    statement_id: StatementId


def encode(bucket_id: BucketId, statement_id: StatementId | None = None) -> BucketProperty:
    """Encode a bucket ID and a statement ID as V1; a missing statement ID becomes 0.

    Raises InvalidNameError if a number is outside 0..4095. Hive 4 lets a larger bucket ID overflow
    into the statement bits, but no other reader supports the overflow.
    """
    statement = 0 if statement_id is None else statement_id
    if not 0 <= bucket_id <= MAX_BUCKET_ID:
        raise InvalidNameError(name=str(bucket_id), what=f"bucket ID (0..{MAX_BUCKET_ID})")
    if not 0 <= statement <= MAX_STATEMENT_ID:
        raise InvalidNameError(name=str(statement), what=f"statement ID (0..{MAX_STATEMENT_ID})")
    return BucketProperty(BucketCodec.V1 << VERSION_SHIFT | bucket_id << BUCKET_SHIFT | statement)


def decode(bucket_property: BucketProperty) -> BucketIdentity:
    """Decode a bucket property without its reserved bits (Trino's), or raise InvalidNameError."""
    version = bucket_property >> VERSION_SHIFT
    if not 0 <= bucket_property <= _INT_MAX or version > BucketCodec.V1:
        raise InvalidNameError(name=str(bucket_property), what="bucket property")
    if version == BucketCodec.V0:
        return BucketIdentity(
            codec_version=BucketCodec.V0,
            bucket_id=BucketId(bucket_property),
            statement_id=StatementId(0),
        )
    return BucketIdentity(
        codec_version=BucketCodec.V1,
        bucket_id=BucketId(bucket_property >> BUCKET_SHIFT & MAX_BUCKET_ID),
        statement_id=StatementId(bucket_property & MAX_STATEMENT_ID),
    )
