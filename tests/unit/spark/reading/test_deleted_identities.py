"""The ranges of row IDs that delete events can have; a row outside them needs no lookup."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.ids import BucketId, StatementId, encode
from airflow_hiveacid.spark.reading.orc_frame import _halves

ANY = (0, (1 << 16) - 1)
# The codec's version stands above the bucket.
V1 = 1 << 13


def of(bucket: int, statement: int) -> int:
    return encode(BucketId(bucket), StatementId(statement))


@pytest.mark.parametrize(
    ("pairs", "buckets", "statements"),
    [
        ([(of(2, 1), of(2, 5))], (V1 + 2, V1 + 2), (1, 5)),
        ([(of(2, 1), of(2, 5)), (of(0, 3), of(0, 9))], (V1, V1 + 2), (1, 9)),
        # Between the least and the greatest of several buckets lies every statement.
        ([(of(0, 3), of(1, 0))], (V1, V1 + 1), ANY),
        ([(of(4, 2), of(4, 2)), (of(0, 3), of(1, 3))], (V1, V1 + 4), ANY),
    ],
)
def test_only_a_range_within_one_bucket_limits_the_statement_ids(
    pairs: list[tuple[int, int]], buckets: tuple[int, int], statements: tuple[int, int]
) -> None:
    assert _halves(pairs) == (buckets, statements)


def test_without_a_known_range_neither_bucket_nor_statement_ids_are_limited() -> None:
    assert _halves(None) == (None, None)
