"""Flat ORC files of other writers: their time zones, calendars, decimals and magic bytes.

The files are Arrow's, with the footers of other writers.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.orc.footer import OrcCalendar, OrcTail, TypeKind
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.stored import (
    are_old_values_known,
    is_stored_as,
    why_not_as_defined,
)
from airflow_hiveacid.storage.stores.locations import LOCAL_STORE, client_of
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.unit.storage import orc_tables

JAVA: Final = json.loads((Path(__file__).parents[1] / "values" / "java_offsets.json").read_text())
SECONDS: Final[list[int]] = JAVA["seconds"]
AT_2015: Final = SECONDS.index(1_420_070_400)
ZONES: Final = (
    *("Europe/Paris", "Europe/Amsterdam", "Europe/Kyiv", "Europe/Dublin", "Europe/Berlin"),
    *("Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Asia/Kathmandu", "Australia/Lord_Howe"),
    *("America/New_York", "America/Sao_Paulo", "America/St_Johns", "US/Pacific", "Pacific/Apia"),
    *("Africa/Windhoek", "Africa/Monrovia", "JST", "EST", "GMT+08:00", "GMT-03:30", "Etc/GMT+8"),
)
EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
SENTINEL: Final = "9999-12-31 23:59:59"


def proleptic(footer: pb.Footer, _postscript: pb.PostScript) -> None:
    footer.calendar = OrcCalendar.PROLEPTIC_GREGORIAN


def written(path: Path, *stripes: pa.Array) -> Path:
    """A flat file with a stripe an array."""
    tables = [pa.table({"v": stripe}) for stripe in stripes]
    return orc_tables.write_tables(path, tables, tables[0].schema)


def rows(path: Path, type_: str, key: str | None = None, **options: Any) -> list[Any]:  # noqa: ANN401
    return [
        value
        for batch in read_rows(file(path, key), [Column(name="v", type=type_)], **options)
        for value in batch.column(0).to_pylist()
    ]


def file(path: Path, key: str | None = None) -> PlainFile:
    return orc_tables.plain_file(path, FileFormat.ORC, key=key or path.name)


def seconds(path: Path, type_: str = "timestamp") -> list[int]:
    pairs = rows(path, type_, timestamps=TimestampForm.PAIR)
    return [pair["seconds"] for pair in pairs]


def stored(instants: Sequence[int], zone: str) -> pa.Array:
    """What Java's writer stores for these instants, as the times that UTC would show."""
    at_2015 = JAVA["offsets"][zone][AT_2015]
    return pa.array([instant + at_2015 for instant in instants], pa.int64()).cast(pa.timestamp("s"))


def shown(zone: str) -> list[int]:
    """The times that clocks in the zone showed at `SECONDS`."""
    offsets = JAVA["offsets"][zone]
    return [instant + offset for instant, offset in zip(SECONDS, offsets, strict=True)]


def test_each_stripe_is_read_in_the_time_zone_of_its_writer(tmp_path: Path) -> None:
    path = written(tmp_path / "f", *(stored(SECONDS, zone) for zone in ZONES))
    orc_tables.with_tail(orc_tables.with_zones(path, *ZONES), proleptic)
    found = seconds(path)
    for at, zone in enumerate(ZONES):
        start = at * len(SECONDS)
        assert (zone, found[start : start + len(SECONDS)]) == (zone, shown(zone))


def test_times_inside_lists_maps_and_structs_are_read_in_the_time_zone_of_their_writer(
    tmp_path: Path,
) -> None:
    zone = "Europe/Paris"
    times = stored(SECONDS, zone)
    structs = pa.StructArray.from_arrays([times, times], names=["a", "b"])
    offsets = pa.array(range(len(structs) + 1), pa.int32())
    path = written(tmp_path / "f", pa.ListArray.from_arrays(offsets, structs))
    orc_tables.with_tail(orc_tables.with_zones(path, zone), proleptic)
    found = rows(path, "array<struct<a:timestamp,b:timestamp>>", timestamps=TimestampForm.PAIR)
    assert [[one["a"]["seconds"], one["b"]["seconds"]] for (one,) in found] == [
        [second, second] for second in shown(zone)
    ]


@pytest.mark.parametrize("compression", ["zlib", "uncompressed"])
def test_times_in_lists_need_no_right_statistics(tmp_path: Path, compression: str) -> None:
    """As after a minor compaction of Hive 3.1: all its statistics are zeros."""
    counts = range(0, 5 * 300 + 1, 5)
    times = pa.array(range(counts[-1]), pa.timestamp("ns"))
    lists = pa.ListArray.from_arrays(pa.array(counts, pa.int32()), times)
    table = pa.table({"v": lists})
    path = tmp_path / "f"
    orc_tables.write_tables(path, [table], table.schema, compression=compression)

    def zeros(tail: OrcTail) -> None:
        tail.footer.row_index_stride = 0
        for of in (tail.footer.statistics, *(stripe.columns for stripe in tail.metadata.stripes)):
            for one in of:
                one.CopyFrom(pb.ColumnStatistics(values=0, has_null=False))

    orc_tables.rewrite_tail(path, zeros)
    found = rows(path, "array<timestamp>", timestamps=TimestampForm.PAIR)
    assert [time["nanos"] for one in found for time in one] == list(range(counts[-1]))


def test_the_fraction_of_a_time_before_1970_is_found_on_the_writers_clock(tmp_path: Path) -> None:
    # Java's writer truncates towards 1970 in UTC: half a second before midnight in Paris is stored
    # as 23:00:00 UTC and a fraction.
    nanos = pa.array([500_000_000, -3600_000_000_000 + 500_000_000], pa.int64())
    path = written(tmp_path / "f", nanos.cast(pa.timestamp("ns")))
    orc_tables.with_zones(path, "Europe/Paris")
    found = rows(path, "timestamp", timestamps=TimestampForm.MICROSECONDS)
    half = dt.timedelta(milliseconds=500)
    assert found[0] == EPOCH - half


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "US/Pacific", "JST", "GMT+08:00"])
def test_the_sentinel_9999_12_31_is_read_in_every_zone_and_form(tmp_path: Path, zone: str) -> None:
    end = int(np.datetime64(SENTINEL).astype(int))
    instant = end - JAVA["offsets"][zone][-1]
    path = orc_tables.with_zones(written(tmp_path / "f", stored([instant], zone)), zone)
    assert seconds(path) == [end]
    (found,) = rows(path, "timestamp", timestamps=TimestampForm.MICROSECONDS)
    assert str(found) == SENTINEL
    with pytest.raises(UnsupportedFileError, match="64 bits of ns cannot hold"):
        rows(path, "timestamp")
    assert rows(path, "string") == [SENTINEL]
    assert rows(path, "date") == [dt.date(9999, 12, 31)]


def test_instants_do_not_depend_on_the_time_zone_of_the_writer(tmp_path: Path) -> None:
    moment = pa.array([1_720_000_000, -2_208_988_800], pa.int64()).cast(pa.timestamp("s", "UTC"))
    path = orc_tables.with_zones(written(tmp_path / "f", moment), "Asia/Tokyo")
    assert seconds(path, "timestamp with local time zone") == [1_720_000_000, -2_208_988_800]


def test_a_stripe_without_a_time_zone_is_read_as_in_utc_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "f", stored(SECONDS, "UTC"))
    orc_tables.with_tail(orc_tables.with_zones(path, None), proleptic)
    assert seconds(path) == SECONDS
    assert "does not state its time zone" in caplog.text


def test_a_zone_without_rules_is_refused_by_its_name_and_not_called_damage(tmp_path: Path) -> None:
    path = orc_tables.with_zones(written(tmp_path / "f", stored([0], "UTC")), "Mars/Olympus")
    with pytest.raises(UnsupportedFileError, match=r"'Mars/Olympus'.*no rules.*tzdata"):
        rows(path, "timestamp")


@pytest.mark.parametrize("writer", [0, 2, 4])
def test_a_zone_does_not_matter_to_a_file_without_timestamps(tmp_path: Path, writer: int) -> None:
    def change(footer: pb.Footer, _postscript: pb.PostScript) -> None:
        footer.writer = writer
        footer.ClearField("software_version")

    path = orc_tables.with_tail(written(tmp_path / "f", pa.array([1, 2]), pa.array([3])), change)
    orc_tables.with_zones(path, "Mars/Olympus", "+08:00")
    assert rows(path, "bigint") == [1, 2, 3]


# ---- calendars -----------------------------------------------------------------------------------

HYBRID_DAYS: Final = [-719164, -141428, -141427, 0, 2932896]
LABELS: Final = ["0001-01-01", "1582-10-04", "1582-10-15", "1970-01-01", "9999-12-31"]


def silent(writer: int, version: int) -> Any:  # noqa: ANN401 - a function
    def change(footer: pb.Footer, postscript: pb.PostScript) -> None:
        footer.ClearField("calendar")
        footer.writer = writer
        postscript.writer_version = version

    return change


@pytest.mark.parametrize("version", [0, 4, 6, 7, 9])
@pytest.mark.parametrize("writer", [0, 1, 2, 4])
def test_a_flat_file_without_a_calendar_is_hybrid_whatever_its_writer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, writer: int, version: int
) -> None:
    days = pa.array(HYBRID_DAYS, pa.int32()).cast(pa.date32())
    path = orc_tables.with_tail(written(tmp_path / "f", days), silent(writer, version))
    for _ in range(2):
        assert [str(day) for day in rows(path, "date")] == LABELS
    told = "days before 1582-10-15 are read in the hybrid calendar"
    assert caplog.text.count(told) == 1, "each stripe is planned, and a file is told once"
    times = (days.cast(pa.int32()).cast(pa.int64()).to_numpy() * 86400).tolist()
    path = orc_tables.with_tail(
        written(tmp_path / "g", stored(times, "UTC")), silent(writer, version)
    )
    assert [str(day) for day in rows(path, "date")] == LABELS


def test_a_young_file_without_a_calendar_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    days = pa.array(HYBRID_DAYS[2:], pa.int32()).cast(pa.date32())
    path = orc_tables.with_tail(written(tmp_path / "f", days), silent(0, 6))
    with caplog.at_level(logging.DEBUG):
        assert [str(day) for day in rows(path, "date")] == LABELS[2:]
    assert "calendar" not in caplog.text


def test_a_file_that_hive_3_wrote_into_a_delta_keeps_its_proleptic_days(tmp_path: Path) -> None:
    days = pa.array([-719162], pa.int32()).cast(pa.date32())
    path = orc_tables.with_tail(written(tmp_path / "f", days), silent(0, 6))
    assert rows(path, "date", key="delta_0000001_0000001_0000/000000_0") == [dt.date(1, 1, 1)]
    assert rows(path, "date", key="sub/000000_0") == [dt.date(1, 1, 3)]


@pytest.mark.parametrize(("calendar", "expected"), [(0, False), (1, True), (2, True)])
def test_old_values_are_known_to_all_readers_only_if_java_stated_the_calendar(
    tmp_path: Path, calendar: int, expected: bool
) -> None:
    def change(footer: pb.Footer, _postscript: pb.PostScript) -> None:
        footer.writer, footer.calendar = 0, calendar

    days = pa.array(HYBRID_DAYS, pa.int32()).cast(pa.date32())
    path = orc_tables.with_tail(written(tmp_path / "f", days), change)
    assert are_old_values_known(read_tail(client_of(LOCAL_STORE), str(path))) is expected


# ---- decimals without precision, and magic bytes -------------------------------------------------


def without_precision(footer: pb.Footer, _postscript: pb.PostScript) -> None:
    for type_ in footer.types:
        if type_.kind == TypeKind.DECIMAL:
            type_.ClearField("precision")
            type_.ClearField("scale")


OLD_DECIMALS: Final = [Decimal("1.12345678"), Decimal("-0.00000049"), None, Decimal("99999.5")]


def test_decimals_without_precision_keep_ten_digits_as_in_java(tmp_path: Path) -> None:
    path = written(tmp_path / "f", pa.array(OLD_DECIMALS, pa.decimal128(20, 8)))
    orc_tables.with_tail(path, without_precision)
    assert rows(path, "decimal(20,8)") == OLD_DECIMALS
    assert rows(path, "decimal(38,10)") == OLD_DECIMALS
    for more in ("string", "double", "decimal(38,11)"):
        with pytest.raises(UnsupportedFileError, match="up to 10 digits after the point"):
            rows(path, more)


def test_decimals_without_precision_may_all_be_null(tmp_path: Path) -> None:
    path = written(tmp_path / "f", pa.array([None, None], pa.decimal128(20, 8)))
    orc_tables.with_tail(path, without_precision)
    assert rows(path, "decimal(20,8)") == [None, None]


def test_more_than_ten_digits_of_decimals_without_precision_are_rounded_as_in_java(
    tmp_path: Path,
) -> None:
    digits = ["0.00000000005", "0.000000000049999", "-0.000000000050001", "123.456789012345"]
    path = written(tmp_path / "f", pa.array([Decimal(d) for d in digits], pa.decimal128(30, 15)))
    orc_tables.with_tail(path, without_precision)
    assert [format(d, "f") for d in rows(path, "decimal(30,10)")] == [
        "0.0000000001",
        "0.0000000000",
        "-0.0000000001",
        "123.4567890123",
    ]


def test_decimals_without_precision_that_may_not_fit_are_refused(tmp_path: Path) -> None:
    large = [Decimal(10) ** 27 - 1, Decimal(10) ** 27]
    for at, type_ in ((0, pa.decimal128(27, 0)), (1, pa.decimal128(28, 0))):
        path = written(tmp_path / f"f{at}", pa.array([large[at]], type_))
        orc_tables.with_tail(path, without_precision)
        if at:
            with pytest.raises(UnsupportedFileError, match=r"no precision.*more than 27 digits"):
                rows(path, "decimal(38,0)")
        else:
            assert rows(path, "decimal(38,0)") == [large[at]]


@pytest.mark.parametrize("bound", ["1E+30", "-1.5E+30", "1E+99999999999999999999", "?", ""])
def test_a_bound_of_decimals_without_precision_may_have_an_exponent_or_be_unknown(
    tmp_path: Path, bound: str
) -> None:
    path = written(tmp_path / "f", pa.array(OLD_DECIMALS, pa.decimal128(20, 8)))

    def change(footer: pb.Footer, postscript: pb.PostScript) -> None:
        without_precision(footer, postscript)
        footer.statistics[1].decimals.maximum = bound

    orc_tables.with_tail(path, change)
    with pytest.raises(UnsupportedFileError, match=r"no precision.*more than 27 digits"):
        rows(path, "decimal(38,10)")


def test_decimals_without_precision_are_not_loaded_and_not_compared_in_a_proof(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "f", pa.array(OLD_DECIMALS, pa.decimal128(20, 8)))
    column = Column(name="v", type="decimal(38,10)")
    orc_tables.with_tail(path, without_precision)
    tail = read_tail(client_of(LOCAL_STORE), str(path))
    assert not is_stored_as(tail.types, 1, parse_type(column.type))
    why = why_not_as_defined(file(path), tail, [column], [column], is_outside=False)
    assert why == "column v is not stored with the type that it has in the table"


def test_a_file_with_magic_bytes_only_at_its_beginning_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "f", pa.array([1, 2]))
    content = path.read_bytes()
    assert content[-8:-1] == b"\x82\xf4\x03\x03ORC"
    for size in (0, 70_000):  # a tail that is read at once, and one that is not
        padded = b"ORC" + bytes(size) + content[3:-8] + bytes([content[-1] - 7])
        path.write_bytes(padded if not size else _moved(path, content, size))
        assert rows(path, "bigint") == [1, 2]
    path.write_bytes(b"CRO" + path.read_bytes()[3:])
    with pytest.raises(CorruptFileError, match="does not end as an ORC file"):
        rows(path, "bigint")


def _moved(path: Path, content: bytes, size: int) -> bytes:
    """The same file with a gap before its stripes, without magic bytes at its end."""
    path.write_bytes(content)

    def change(footer: pb.Footer, _postscript: pb.PostScript) -> None:
        for stripe in footer.stripes:
            stripe.offset += size

    moved = orc_tables.with_tail(path, change).read_bytes()
    return b"ORC" + bytes(size) + moved[3:-8] + bytes([moved[-1] - 7])


# ---- what would end the process ------------------------------------------------------------------


def test_binary_values_are_read_as_texts_of_hexadecimal_digits_as_by_java(tmp_path: Path) -> None:
    path = written(tmp_path / "f", pa.array([b"\xff\x00", None, b""]))
    assert rows(path, "string") == ["ff 00", None, ""]
    assert rows(path, "varchar(4)") == ["ff 0", None, ""]
    with pytest.raises(UnsupportedFileError, match="stored as binary, which cannot be read as int"):
        rows(path, "int")


@pytest.mark.parametrize("key", ["int", "date", "decimal(3,1)"])
def test_a_key_of_a_map_that_becomes_null_by_a_change_of_its_type_is_refused(
    tmp_path: Path, key: str
) -> None:
    maps = pa.array([[("x", 1)], None], pa.map_(pa.string(), pa.int32()))
    path = written(tmp_path / "f", maps)
    assert rows(path, "map<string,int>") == [[("x", 1)], None]
    with pytest.raises(UnsupportedFileError, match="a key of the map 'v' cannot be converted"):
        rows(path, f"map<{key},int>")


def test_maps_with_a_null_key_are_refused_and_do_not_end_the_process(tmp_path: Path) -> None:
    """Java's writer keeps NULL keys; a list of structs with NULLs has the same streams."""
    entries = pa.StructArray.from_arrays([pa.array(["a", None]), pa.array([1, 2])], ["k", "v"])
    pairs = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), entries)
    path = written(tmp_path / "f", pairs)
    orc_tables.with_tail(path, _as_map)
    _without_struct(path)
    with pytest.raises(UnsupportedFileError, match="NULL key, which this reader cannot represent"):
        rows(path, "map<string,bigint>")


def _as_map(footer: pb.Footer, _postscript: pb.PostScript) -> None:
    root, pairs, _struct, key, value = footer.types
    pairs.kind = TypeKind.MAP
    pairs.children[:] = [2, 3]
    types = [root, pairs, key, value]
    kept = [type(root).FromString(type_.SerializeToString()) for type_ in types]
    del footer.types[:]
    footer.types.extend(kept)
    del footer.statistics[2]


def _without_struct(path: Path) -> None:
    """Remove the streams of the struct, and renumber those of its fields."""

    def change(inside: pb.StripeFooter) -> None:
        assert not [s for s in inside.streams if s.column == 2 and s.kind != 6]
        for stream in inside.streams:
            if stream.kind == 6:
                stream.column = 0
            elif stream.column > 2:
                stream.column -= 1
        del inside.columns[2]

    orc_tables.with_stripe_footers(path, [change])


def test_lengths_of_streams_that_contradict_the_stripe_are_told_as_damage(tmp_path: Path) -> None:
    path = written(tmp_path / "f", stored(SECONDS, "UTC"))

    def change(inside: pb.StripeFooter) -> None:
        inside.writer_time_zone = "Europe/Paris"
        for stream in inside.streams:
            stream.length = 0

    orc_tables.with_stripe_footers(path, [change])
    with pytest.raises(CorruptFileError):
        rows(path, "timestamp")
