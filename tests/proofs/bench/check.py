"""Checks that two systems have the same rows, and that these are the expected ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tests.proofs.bench.data import Sums
from tests.proofs.bench.sales import KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WrongRowsError(Exception):
    """A system ended with other rows than the workload requires, so its figures mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """A summary that distinguishes states of the table: sums, and a hash over all values."""

    sums: Sums
    hash: int


def fingerprint(frame: DataFrame) -> Fingerprint:
    """Read every row of a frame once, and return its fingerprint."""
    row = frame.agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum(KEY).alias("keys"),
        F.sum("quantity").alias("quantity"),
        (F.sum("paid") * 100).cast("bigint").alias("paid_cents"),
        F.bit_xor(F.xxhash64(*sorted(frame.columns))).alias("hash"),
    ).first()
    values = row.asDict() if row is not None else {}
    return Fingerprint(hash=values.pop("hash"), sums=Sums(**values))


def require_sums(found: Fingerprint, expected: Sums, what: str) -> None:
    """Compare the sums with those that follow from the workload's own numbers.

    Raises:
        WrongRowsError: They differ.
    """
    if found.sums != expected:
        raise WrongRowsError(f"{what} holds {found.sums}, but should hold {expected}")


def require_same(found: Fingerprint, expected: Fingerprint, what: str) -> None:
    """Compare with another system's fingerprint.

    Raises:
        WrongRowsError: They differ.
    """
    if found != expected:
        raise WrongRowsError(f"{what} holds {found}, the other system {expected}")
