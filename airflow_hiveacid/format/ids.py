"""A distinct type for every integer of the format.

A transaction ID and a write ID are both integers and mean different things; with one type each,
mypy finds the swap. Values are plain `int` at run time.

Example:
    >>> WriteId(7)
    7
"""

from __future__ import annotations

from typing import Final, NewType

TxnId = NewType("TxnId", int)
"""Cluster-wide transaction ID from the metastore. In a directory's name only after `_v`."""

WriteId = NewType("WriteId", int)
"""Per-table ID, allocated inside a transaction; stamps rows and names directories."""

LockId = NewType("LockId", int)
"""ID of one lock request in the metastore."""

BucketId = NewType("BucketId", int)
"""Number of a bucket file, 0..4095; for unbucketed tables the number of the writer."""

StatementId = NewType("StatementId", int)
"""0-based number of a statement within its transaction, 0..4095."""

BucketProperty = NewType("BucketProperty", int)
"""The encoded integer in the `bucket` column; opaque for row identity."""

RowId = NewType("RowId", int)
"""Position within (original write ID, bucket property)."""

LONG_MAX: Final = (1 << 63) - 1
"""What the metastore writes for "no open ID" (java.lang.Long.MAX_VALUE)."""
