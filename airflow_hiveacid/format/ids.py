"""Distinct types for the kinds of IDs in the format.

A transaction ID and a write ID are both integers but have different meanings. With separate types,
mypy reports a mix-up. Values are plain `int` at run time.

Example:
    >>> WriteId(7)
    7
"""

from __future__ import annotations

from typing import Final, NewType

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
