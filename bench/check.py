"""Knows when two systems hold the same rows, and that they hold the ones they should."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader knows

from bench.data import Sums
from bench.sales import KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WrongRowsError(Exception):
    """A system ended in other rows than the workload asks for: its figures mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What tells two states of the table apart: sums, and a hash over every column of every row."""

    sums: Sums
    hash: int


def fingerprint(frame: DataFrame) -> Fingerprint:
    """Read every row of a frame once."""
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
    """Compare with what the workload's own numbers add up to.

    Raises:
        WrongRowsError: They differ.
    """
    if found.sums != expected:
        raise WrongRowsError(f"{what} holds {found.sums}, and should hold {expected}")


def require_same(found: Fingerprint, expected: Fingerprint, what: str) -> None:
    """Compare with another system.

    Raises:
        WrongRowsError: They differ.
    """
    if found != expected:
        raise WrongRowsError(f"{what} holds {found}, the other system {expected}")
