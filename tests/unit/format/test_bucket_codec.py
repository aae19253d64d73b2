from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.ids import (
    BucketCodec,
    BucketId,
    BucketIdentity,
    BucketProperty,
    StatementId,
    decode,
    encode,
)


@pytest.mark.parametrize(
    ("bucket", "statement", "value"),
    [
        (0, 0, 536870912),
        (1, 0, 536936448),
        (2, 0, 537001984),
        (0, 1, 536870913),
        (1, 1, 536936449),
        (3, 2, 537067522),
        (4095, 4095, 0x2FFF0FFF),
    ],
)
def test_bucket_and_statement_ids_are_encoded_as_in_hive(
    bucket: int, statement: int, value: int
) -> None:
    assert encode(BucketId(bucket), StatementId(statement)) == value
    assert decode(BucketProperty(value)) == BucketIdentity(
        codec_version=BucketCodec.V1,
        bucket_id=BucketId(bucket),
        statement_id=StatementId(statement),
    )


def test_a_missing_statement_id_is_encoded_as_zero() -> None:
    assert encode(BucketId(1)) == encode(BucketId(1), StatementId(0))


@pytest.mark.parametrize("value", [0, 7, 5000, (1 << 29) - 1])
def test_a_bucket_property_of_hive_2_is_the_bucket_id(value: int) -> None:
    identity = decode(BucketProperty(value))
    assert identity.codec_version is BucketCodec.V0
    assert (identity.bucket_id, identity.statement_id) == (value, 0)


def test_reserved_bits_do_not_change_the_bucket_and_statement_ids() -> None:
    plain = encode(BucketId(3), StatementId(2))
    assert decode(BucketProperty(plain | 1 << 28 | 1 << 15)) == decode(plain)


@pytest.mark.parametrize("value", [2 << 29, (1 << 31) - 1, -1, 1 << 31])
def test_an_unknown_codec_version_is_an_error(value: int) -> None:
    with pytest.raises(InvalidNameError, match="bucket property"):
        decode(BucketProperty(value))


@pytest.mark.parametrize(("bucket", "statement"), [(4096, 0), (-1, 0), (0, 4096), (0, -1)])
def test_ids_that_need_more_than_12_bits_are_refused(bucket: int, statement: int) -> None:
    with pytest.raises(InvalidNameError, match="ID"):
        encode(BucketId(bucket), StatementId(statement))
