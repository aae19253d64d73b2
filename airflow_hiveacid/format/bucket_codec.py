"""The integer in the `bucket` column: codec version, bucket ID and statement ID in 32 bits.

The encoding is that of Hive's class BucketCodec. The row ID contains the raw integer.

Example:
    >>> encode(BucketId(3), StatementId(2))
    537067522
    >>> decode(BucketProperty(537067522)).bucket_id
    3
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import BucketId, BucketProperty, StatementId

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
    """Decode a bucket property, or raise InvalidNameError; Trino may set reserved bits."""
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
