"""Flat ORC files of other writers, read by Hive 4's reader and by ours: every time zone of Java,
every writer version, decimals without precision, no magic bytes.

The files are Arrow's, with the footers of other writers.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from tests.judges.bare import BareReader
from tests.unit.storage.orc_tables import with_tail, with_zones
from tests.unit.storage.plain.test_other_writers import (
    HYBRID_DAYS,
    JAVA,
    OLD_DECIMALS,
    SECONDS,
    rows,
    silent,
    stored,
    without_precision,
    written,
)
from tests.unit.storage.values.test_time_zones import JAVAS_OWN, LATER_LAWS

ALL: Final = "db.t:1:9223372036854775807::"
# Their times depend on the release of the JDK: the database made four of these zones links to other
# zones in 2024, and Java's releases differ in the summer of Windhoek.
OF_A_RELEASE: Final = frozenset({"Africa/Windhoek", "CST6CDT", "EST5EDT", "MST7MDT", "PST8PDT"})
ZONES: Final = sorted(set(JAVA["offsets"]) - JAVAS_OWN - LATER_LAWS - OF_A_RELEASE)


def hives(reader: BareReader, path: Path, type_: str) -> list[Any]:
    return [row[1] for row in reader.read(path.parent, ALL, f"struct<v:{type_}>")]


def test_both_readers_show_the_same_times_of_every_time_zone_of_java(
    tmp_path: Path, bare_reader_4: BareReader
) -> None:
    path = written(tmp_path / "t" / "000000_0", *(stored(SECONDS, zone) for zone in ZONES))
    with_tail(with_zones(path, *ZONES), silent(0, 6))
    ours, theirs = rows(path, "string"), hives(bare_reader_4, path, "timestamp")
    assert len(ours) == len(ZONES) * len(SECONDS)
    different = [
        (zone, mine, hive)
        for zone, mine, hive in zip(np.repeat(ZONES, len(SECONDS)), ours, theirs, strict=True)
        if mine != hive
    ]
    assert not different


@pytest.mark.parametrize("writer", [0, 1, 2, 4])
def test_both_readers_show_the_same_days_of_every_writer_version(
    tmp_path: Path, bare_reader_4: BareReader, writer: int
) -> None:
    days = pa.array([*HYBRID_DAYS, -719162, -500000, None], pa.int32()).cast(pa.date32())
    # Other writers than Java's began with version 6.
    for version in (0, 1, 4, 6, 7, 8, 9) if writer == 0 else (6, 7):
        path = written(tmp_path / f"d{version}" / "000000_0", days)
        with_tail(path, silent(writer, version))
        ours = [day and str(day) for day in rows(path, "date")]
        assert (version, ours) == (version, hives(bare_reader_4, path, "date"))


def test_both_readers_show_the_same_decimals_without_precision(
    tmp_path: Path, bare_reader_4: BareReader
) -> None:
    many = [Decimal("0.00000000005"), Decimal("-7.123456789050001"), Decimal(10) ** 14, None]
    for at, (values, type_) in enumerate(
        [(OLD_DECIMALS, pa.decimal128(20, 8)), (many, pa.decimal128(30, 15))]
    ):
        path = written(tmp_path / f"t{at}" / "000000_0", pa.array(values, type_))
        with_tail(path, without_precision)
        for wanted in ("decimal(38,10)", "decimal(20,8)"):
            theirs = hives(bare_reader_4, path, wanted)
            assert rows(path, wanted) == [v and Decimal(v) for v in theirs]


def test_both_readers_read_a_file_with_magic_bytes_only_at_its_beginning(
    tmp_path: Path, bare_reader_4: BareReader
) -> None:
    path = written(tmp_path / "t" / "000000_0", pa.array([1, 2]))
    content = path.read_bytes()
    path.write_bytes(content[:-8] + bytes([content[-1] - 7]))
    assert rows(path, "bigint") == hives(bare_reader_4, path, "bigint") == [1, 2]


@pytest.mark.parametrize("wanted", ["string", "varchar(5)", "char(7)"])
def test_both_readers_show_the_same_text_of_binary_values(
    tmp_path: Path, bare_reader_4: BareReader, wanted: str
) -> None:
    values = pa.array([b"", b"a", b"\x00\xffab", None], pa.binary())
    path = written(tmp_path / "t" / "000000_0", values)
    assert rows(path, wanted) == hives(bare_reader_4, path, wanted)
