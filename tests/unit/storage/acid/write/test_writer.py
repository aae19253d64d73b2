from __future__ import annotations

import decimal
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    CorruptFileError,
    InvalidNameError,
    LocationPermissionError,
    TypeMismatchError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.ids import BucketId, RowId, StatementId, WriteId, encode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.acid import IDENTITY_COLUMN_IDS, acid_schema
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.write import orc_file, writer as writer_module
from airflow_hiveacid.storage.acid.write.writer import (
    AcidFileWriter,
    WriterOptions,
    WrittenFile,
    delete_events,
    insert_events,
)
from airflow_hiveacid.storage.orc import encoders, view
from airflow_hiveacid.storage.orc.compression import Compression, decompress
from airflow_hiveacid.storage.orc.encoders import PIECE_ROWS, Encoder
from airflow_hiveacid.storage.orc.footer import (
    ACID_STATS,
    ACID_VERSION,
    KEY_INDEX,
    OrcCalendar,
    TypeKind,
)
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.stripe_copy import ROW_INDEX, stripe_content
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.orc.view import fitting_rows
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.timestamps import PAIR_TYPE, TimestampForm
from tests.support.writer_cases import (
    CASES,
    EARLY_FRACTIONS,
    LATE_TIMESTAMPS,
    NANOSECONDS,
    NESTED,
    NUMBERS,
    TEXT,
    WriterCase,
    array_of,
    nanoseconds,
)
from tests.unit.storage.orc_tables import acid_file, identities
from tests.unit.storage.test_golden import alike
from tests.unit.storage.writing import columns_of, lines_of, write_events

FS = LocalFileSystem()
B0 = encode(BucketId(0))
ID = (Column(name="id", type="bigint"),)
# One stripe a piece, the smallest there is.
SMALL_STRIPES = WriterOptions(compression="none", stripe_size_bytes=1)


def write(
    folder: Path,
    columns: Sequence[Column],
    batches: Iterable[pa.RecordBatch],
    options: WriterOptions | None = None,
    *,
    is_delete: bool = False,
    name: str = "bucket_00000",
) -> WrittenFile:
    path = folder / "delta" / name
    return write_events(path, columns, *batches, options=options, is_delete=is_delete)


def inserts(rows: pa.RecordBatch, first: int = 0, write_id: int = 1) -> pa.RecordBatch:
    return insert_events(rows, WriteId(write_id), B0, RowId(first))


def numbered(first: int, count: int, write_id: int = 1) -> pa.RecordBatch:
    rows = pa.record_batch({"id": pa.array(range(first, first + count), pa.int64())})
    return inserts(rows, first, write_id)


def deletes(keys: Sequence[tuple[int, int, int]], columns: Sequence[Column]) -> pa.RecordBatch:
    return delete_events(identities(keys), WriteId(9), columns)


def key_index_of_rows(path: str) -> str:
    """The key index, from the rows of each stripe."""
    file = orc.ORCFile(path)
    keys = []
    for stripe in range(file.nstripes):
        rows = file.read_stripe(stripe, columns=["originalTransaction", "bucket", "rowId"])
        keys.append(",".join(str(column[-1]) for column in rows.columns) + ";")
    return "".join(keys)


def exact_rows(path: str) -> list[tuple[Any, ...]]:
    """The rows as ORC holds them, read by pyorc."""

    class Raw(pyorc.converters.ORCConverter):
        @staticmethod
        def from_orc(*raw: Any) -> Any:  # noqa: ANN401
            return raw[0] if len(raw) == 1 else raw[:2]

        to_orc = None

    kinds = pyorc.TypeKind
    raw = {kinds.TIMESTAMP: Raw, kinds.DATE: Raw}
    with open(path, "rb") as file:  # noqa: PTH123 - pyorc wants a file
        return [row[5] for row in pyorc.Reader(file, converters=raw)]


# --- what every file says of itself ---


@pytest.mark.promise("F1", "F11")
def test_a_file_has_the_acid_columns_and_metadata_that_readers_expect(tmp_path: Path) -> None:
    written = write(tmp_path, ID, [numbered(0, 3)])
    tail = read_tail(FS, written.path)
    assert tail.types[0].field_names == tuple(acid_schema(ID).names)
    assert [t.kind for t in tail.types[1:]] == [
        TypeKind.INT,
        TypeKind.LONG,
        TypeKind.INT,
        TypeKind.LONG,
        TypeKind.LONG,
        TypeKind.STRUCT,
        TypeKind.LONG,
    ]
    index = f"1,{B0},2;"
    assert tail.user_metadata == {KEY_INDEX: index, ACID_STATS: "3,0,0", ACID_VERSION: "2"}
    assert tail.calendar is OrcCalendar.PROLEPTIC_GREGORIAN
    assert tail.footer.writer == 1
    assert tail.row_index_stride == 10_000


def test_closing_a_file_returns_its_rows_stripes_keys_and_size(tmp_path: Path) -> None:
    written = write(tmp_path, ID, [numbered(5, 3), numbered(8, 2, write_id=2)])
    assert (written.rows, written.stripes, written.bucket_id) == (5, 1, 0)
    assert written.first_key == (1, B0, 5)
    assert written.last_key == (2, B0, 9)
    assert written.size_bytes == (tmp_path / "delta" / "bucket_00000").stat().st_size


@pytest.mark.parametrize("compression", ["none", "zlib", "snappy", "lz4", "zstd"])
def test_every_compression_is_declared_and_readable(tmp_path: Path, compression: str) -> None:
    written = write(tmp_path, ID, [numbered(0, 5_000)], WriterOptions(compression=compression))
    assert read_tail(FS, written.path).compression is Compression[compression.upper()]
    assert orc.ORCFile(written.path).read()["rowId"].to_pylist() == list(range(5_000))


@pytest.mark.promise("F12")
@pytest.mark.parametrize("is_delete", [False, True])
def test_a_file_without_rows_is_valid(tmp_path: Path, is_delete: bool) -> None:
    written = write(tmp_path, NESTED.columns, [], is_delete=is_delete)
    tail = read_tail(FS, written.path)
    assert (written.rows, written.stripes) == (0, 0)
    assert (written.first_key, written.last_key) == (None, None)
    assert tail.user_metadata[KEY_INDEX] == ""
    assert tail.user_metadata[ACID_STATS] == "0,0,0"
    assert orc.ORCFile(written.path).read().num_rows == 0


def test_a_batch_without_rows_changes_nothing(tmp_path: Path) -> None:
    written = write(tmp_path, ID, [numbered(0, 0), numbered(0, 2), numbered(2, 0)])
    assert written.rows == 2


def test_char_and_varchar_are_declared_with_their_lengths(tmp_path: Path) -> None:
    nested, local = "map<varchar(9),array<char(2)>>", "timestamp with local time zone"
    columns = columns_of({"c": "char(4)", "n": nested, "d": "decimal(20,5)", "z": local})
    types = read_tail(FS, write(tmp_path, columns, []).path).types[7:]
    assert [(t.kind, t.maximum_length) for t in types] == [
        (TypeKind.CHAR, 4),
        (TypeKind.MAP, 0),
        (TypeKind.VARCHAR, 9),
        (TypeKind.LIST, 0),
        (TypeKind.CHAR, 2),
        (TypeKind.DECIMAL, 0),
        (TypeKind.TIMESTAMP_INSTANT, 0),
    ]
    assert (types[5].precision, types[5].scale) == (20, 5)


# --- values ---


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_types_in_the_tail_are_those_of_the_table(tmp_path: Path, case: WriterCase) -> None:
    written = write(tmp_path, case.columns, [inserts(case.batch())])
    found = orc.ORCFile(written.path).schema.field("row").type
    for column, wanted in zip(case.columns, row_type(case.columns), strict=True):
        assert found.field(column.name).type == wanted.type


@pytest.mark.parametrize("case", [NUMBERS, TEXT, LATE_TIMESTAMPS, NESTED], ids=lambda c: c.name)
def test_arrow_reads_the_values_that_were_written(tmp_path: Path, case: WriterCase) -> None:
    batch = case.batch()
    written = write(tmp_path, case.columns, [inserts(batch)])
    found = orc.ORCFile(written.path).read()["row"].combine_chunks()
    padded = {c.name: int(c.type[5:-1]) for c in case.columns if c.type.startswith("char")}
    for column in case.columns:
        expected = batch[column.name].to_pylist()
        if column.name in padded:
            expected = [v if v is None else v.ljust(padded[column.name]) for v in expected]
        if column.type == "array<char(3)>":
            expected = [
                v if v is None else [i if i is None else i.ljust(3) for i in v] for v in expected
            ]
        assert repr(found.field(column.name).to_pylist()) == repr(expected), column.name


def test_slices_of_nested_columns_keep_their_values(tmp_path: Path) -> None:
    # Arrow's writer shifts values when it is handed such slices itself.
    rows = NESTED.batch()
    whole = pa.concat_arrays([rows.to_struct_array()] * 2_000)
    events = insert_events(whole, WriteId(1), B0, RowId(0))
    cuts = [0, 1, 7, 4_100, 8_191, 8_192, len(whole)]
    batches = [events.slice(a, b - a) for a, b in itertools.pairwise(cuts)]
    written = write(tmp_path, NESTED.columns, batches, SMALL_STRIPES)
    found = orc.ORCFile(written.path).read()["row"].combine_chunks()
    for column in (c for c in NESTED.columns if c.type != "array<char(3)>"):
        assert found.field(column.name).to_pylist() == whole.field(column.name).to_pylist()


def test_values_hidden_below_null_structs_are_not_written(tmp_path: Path) -> None:
    hidden = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])],
        names=["x", "y"],
        mask=pa.array([False, True, False]),
    )
    outer = pa.StructArray.from_arrays([hidden], names=["s"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), hidden)
    inner = "struct<x:bigint,y:string>"
    columns = columns_of({"o": f"struct<s:{inner}>", "l": f"array<{inner}>"})
    rows = pa.RecordBatch.from_arrays([outer, lists], names=["o", "l"])
    written = write(tmp_path, columns, [inserts(rows)])
    found = orc.ORCFile(written.path).read()["row"].combine_chunks()
    assert found.to_pylist() == rows.to_pylist()


def test_timestamps_before_1970_are_exact(tmp_path: Path) -> None:
    written = write(tmp_path, EARLY_FRACTIONS.columns, [inserts(EARLY_FRACTIONS.batch())])
    column = [c.name for c in EARLY_FRACTIONS.columns].index("t")
    found = [row[column] for row in exact_rows(written.path)]
    expected = EARLY_FRACTIONS.values[column]
    assert found == [None if v is None else divmod(v, 10**9) for v in expected]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_our_reader_returns_the_same_values_as_hive(tmp_path: Path, case: WriterCase) -> None:
    """The other side of tests/interop/test_writer_types.py: the same rows in the same words."""
    written = write(tmp_path, case.columns, [inserts(case.batch())])
    file = acid_file(written.path)
    types = [parse_type(column.type) for column in case.columns]
    events = read_events(file, case.columns, timestamps=TimestampForm.PAIR)
    rows = (pa.RecordBatch.from_struct_array(batch["row"]) for batch in events)
    found = [json.loads(line) for line in lines_of(rows, case.columns)]
    expected = [alike([None, *row], types)[1:] for row in case.judged()]
    # As text, for -0.0 equals 0.0.
    assert repr([alike([None, *row], types)[1:] for row in found]) == repr(expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_encoders_write_the_same_values(
    tmp_path: Path, case: WriterCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = write(tmp_path / "usual", case.columns, [inserts(case.batch())])

    def always_by_row(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        fitted = fit_rows(*args, **kwargs)
        return type(fitted)(rows=fitted.rows, needs_rows=True, nul_column_ids=fitted.nul_column_ids)

    fit_rows = writer_module.fit_rows
    monkeypatch.setattr(writer_module, "fit_rows", always_by_row)
    by_row = write(tmp_path / "by row", case.columns, [inserts(case.batch())])
    assert repr(exact_rows(by_row.path)) == repr(exact_rows(usual.path))
    tails = [read_tail(FS, written.path) for written in (usual, by_row)]
    assert tails[0].types == tails[1].types
    assert tails[0].user_metadata == tails[1].user_metadata
    for ours, theirs in zip(tails[0].footer.statistics, tails[1].footer.statistics, strict=True):
        assert repr(ours) == repr(theirs)


EARLY_MOMENT = nanoseconds("1950-01-01 00:00:00.5")


def early(columns: Sequence[Column], values: Sequence[list[Any]]) -> pa.RecordBatch:
    """Insert events that only the encoder by rows takes: a column `t` with an early fraction."""
    types = [field.type for field in row_type(columns)]
    arrays = [pa.array(v, type_) for v, type_ in zip(values, types[:-1], strict=True)]
    moments = pa.array([EARLY_MOMENT] * len(values[0]), types[-1])
    rows = pa.RecordBatch.from_arrays([*arrays, moments], names=[c.name for c in columns])
    return inserts(rows)


T = Column(name="t", type="timestamp")


@pytest.mark.parametrize(
    ("type_", "entries"),
    [
        ("map<double,int>", [(0.0, 1), (-0.0, 2)]),
        ("map<float,int>", [(0.0, 1), (-0.0, 2), (1.5, None)]),
        ("map<string,int>", [("a", 1), ("a", 2)]),
        ("map<int,string>", [(7, "x"), (7, "y"), (8, "z")]),
        ("map<array<int>,int>", [([1], 1), ([1, 2], 2)]),
        ("map<struct<x:int>,int>", [({"x": 1}, 1), ({"x": 1}, 2)]),
        ("map<map<int,int>,int>", [([(1, 2)], 1), ([(1, 2)], 2)]),
        ("map<decimal(5,2),int>", [(decimal.Decimal("1.00"), 1), (decimal.Decimal("1.00"), 2)]),
    ],
)
def test_no_map_entry_is_lost_in_a_row_with_an_early_timestamp(
    tmp_path: Path, type_: str, entries: list[tuple[Any, Any]]
) -> None:
    columns = [Column(name="m", type=type_), T]
    written = write(tmp_path, columns, [early(columns, [[entries, None, entries[:1]]])])
    found = orc.ORCFile(written.path).read()["row"].combine_chunks().field("m")
    assert repr(found.to_pylist()) == repr([entries, None, entries[:1]])


def test_a_map_with_a_repeated_boolean_key_is_refused(tmp_path: Path) -> None:
    columns = [Column(name="m", type="map<boolean,int>"), T]
    with pytest.raises(TypeMismatchError, match=r"'m'.*map<boolean,int>.*one key twice"):
        write(tmp_path, columns, [early(columns, [[[(True, 1), (True, 2)]]])])


RAW = [b"caf\xe9", b"\xff\xfe", None, "café".encode(), b"\xc3"]


def raw_texts(column: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = column.view(pa.binary()).to_pylist()
    return values


@pytest.mark.parametrize(
    ("type_", "stored"),
    [
        ("string", RAW),
        ("varchar(9)", RAW),
        ("char(4)", [b"caf\xe9", b"\xff\xfe  ", None, "café".encode(), b"\xc3   "]),
    ],
)
@pytest.mark.parametrize("is_early", [False, True])
def test_strings_with_invalid_utf8_are_written_and_read_unchanged(
    tmp_path: Path, type_: str, stored: list[bytes | None], *, is_early: bool
) -> None:
    columns = [Column(name="s", type=type_), Column(name="l", type=f"array<{type_}>"), T]
    texts = pa.array(RAW, pa.binary()).view(pa.string())
    moments = [EARLY_MOMENT if is_early else 5] * len(RAW)
    lists = pa.ListArray.from_arrays(pa.array(range(6), pa.int32()), texts)
    rows = pa.RecordBatch.from_arrays(
        [texts, lists, pa.array(moments, NANOSECONDS)], names=["s", "l", "t"]
    )
    clean = pa.record_batch(
        [pa.array(["plain"[:4]] * 3), pa.array([[]] * 3, lists.type), rows["t"].slice(0, 3)],
        schema=rows.schema,
    )
    # Clean rows first: the encoder has to change when the others come.
    events = pa.Table.from_batches([clean, rows]).combine_chunks().to_batches()[0]
    whole = insert_events(events, WriteId(1), B0, RowId(0))
    written = write(tmp_path, columns, [whole.slice(0, 3), whole.slice(3)])
    found = orc.ORCFile(written.path).read()["row"].combine_chunks()
    assert raw_texts(found.field("s"))[3:] == stored
    assert raw_texts(found.field("l").values) == stored
    file = acid_file(written.path)
    read = pa.concat_arrays([b["row"] for b in read_events(file, columns)])
    assert raw_texts(read.field("s"))[3:] == stored
    assert read.field("t").cast(pa.int64()).to_pylist() == [*moments[:3], *moments]


@pytest.mark.parametrize("moment", [1_600_000_000_123_456_789, -1_000_000_000_000_000_001])
def test_timestamps_with_local_time_zone_are_instants(tmp_path: Path, moment: int) -> None:
    columns = [Column(name="z", type="timestamp with local time zone")]
    rows = pa.record_batch({"z": pa.array([moment, None], pa.timestamp("ns", tz="UTC"))})
    written = write(tmp_path, columns, [inserts(rows)])
    assert exact_rows(written.path) == [(divmod(moment, 10**9),), (None,)]
    found = orc.ORCFile(written.path).read()["row"].combine_chunks().field("z")
    assert found.type == pa.timestamp("ns", tz="UTC")
    assert found.cast(pa.int64()).to_pylist() == [moment, None]


def test_a_fraction_in_the_last_second_before_1970_is_refused(tmp_path: Path) -> None:
    columns = [Column(name="s", type="struct<t:timestamp>")]
    moment = nanoseconds("1969-12-31 23:59:59.5")
    rows = pa.record_batch({"s": pa.array([{"t": moment}], row_type(columns).field(0).type)})
    with pytest.raises(TypeMismatchError, match=r"'s\.t'.*23:59:59\.500000000.*ORC cannot store"):
        write(tmp_path, columns, [inserts(rows)])
    assert not list((tmp_path / "delta").iterdir())


@pytest.mark.parametrize(("text", "value"), [("char(2)", "abc"), ("varchar(2)", "äöü")])
def test_a_string_that_is_too_long_for_its_type_is_refused(
    tmp_path: Path, text: str, value: str
) -> None:
    columns = [Column(name="c", type=text)]
    with pytest.raises(TypeMismatchError, match="string of 3 characters"):
        write(tmp_path, columns, [inserts(pa.record_batch({"c": [value]}))])


def test_extra_trailing_blanks_of_a_char_value_are_removed(tmp_path: Path) -> None:
    columns = [Column(name="c", type="char(2)")]
    written = write(tmp_path, columns, [inserts(pa.record_batch({"c": ["a    ", "bb  ", None]}))])
    assert exact_rows(written.path) == [("a ",), ("bb",), (None,)]


def test_writing_early_fractional_timestamps_without_pyorc_raises_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyorc", None)
    write(tmp_path, ID, [numbered(0, 1)])
    with pytest.raises(ConfigurationError, match="pyorc"):
        write(tmp_path, EARLY_FRACTIONS.columns, [inserts(EARLY_FRACTIONS.batch())])


# --- stripes, keys, statistics ---


@pytest.mark.promise("F11")
def test_the_key_index_has_the_last_row_of_every_stripe(tmp_path: Path) -> None:
    batches, at = [], 0
    for write_id, count in enumerate((1, 5_000, 4_096, 8_192, 3, 12_345), start=1):
        batches.append(numbered(at, count, write_id))
        at += count
    written = write(tmp_path, ID, batches, SMALL_STRIPES)
    tail = read_tail(FS, written.path)
    assert written.stripes == len(tail.stripes) > 8
    assert tail.user_metadata[KEY_INDEX] == key_index_of_rows(written.path)
    assert tail.user_metadata[ACID_STATS] == f"{at},0,0"


def test_the_key_index_and_row_id_ranges_of_a_million_rows_are_correct(tmp_path: Path) -> None:
    count, step = 1_000_000, 65_536
    options = WriterOptions(compression="none", stripe_size_bytes=1 << 19)
    columns = [*ID, Column(name="t", type="string")]

    def rows(first: int) -> pa.RecordBatch:
        ids = pa.array(range(first, min(first + step, count)), pa.int64())
        return inserts(pa.record_batch({"id": ids, "t": ids.cast(pa.string())}), first)

    written = write(tmp_path, columns, (rows(first) for first in range(0, count, step)), options)
    tail = read_tail(FS, written.path)
    assert len(tail.stripes) > 10
    assert tail.user_metadata[KEY_INDEX] == key_index_of_rows(written.path)
    first = 0
    for at, stripe in enumerate(tail.stripes):
        assert tail.integer_range(4, at) == (first, first + stripe.rows - 1)
        first += stripe.rows
    assert tail.integer_range(4) == (0, count - 1)


def test_statistics_of_identities_are_exact_in_file_and_stripes(tmp_path: Path) -> None:
    keys = [
        (w, encode(BucketId(0), StatementId(s)), r * 7)
        for w in (2, 5, 9)
        for s in (0, 3)
        for r in range(1_500)
    ]
    events = deletes(keys, ID)
    batches = [events.slice(start, 700) for start in range(0, len(keys), 700)]
    written = write(tmp_path, ID, batches, SMALL_STRIPES, is_delete=True)
    tail = read_tail(FS, written.path)
    assert len(tail.stripes) > 5
    ends = [0, *itertools.accumulate(stripe.rows for stripe in tail.stripes)]
    for place, column_id in enumerate(IDENTITY_COLUMN_IDS):
        values = [key[place] for key in keys]
        assert tail.integer_range(column_id) == (min(values), max(values))
        for at, (start, end) in enumerate(itertools.pairwise(ends)):
            part = values[start:end]
            assert tail.integer_range(column_id, at) == (min(part), max(part))


def test_a_file_may_contain_stripes_of_both_encoders(tmp_path: Path) -> None:
    columns = [*ID, Column(name="t", type="timestamp"), Column(name="s", type="string")]
    early, late = nanoseconds("1950-01-01 00:00:00.25"), nanoseconds("2020-01-01 00:00:00.25")
    moments = [early if 900 <= i < 950 or i == 15_000 else late + i for i in range(30_000)]
    rows = pa.record_batch(
        {
            "id": pa.array(range(len(moments)), pa.int64()),
            "t": pa.array(moments, NANOSECONDS),
            "s": [f"text {i}" for i in range(len(moments))],
        }
    )
    events = inserts(rows)
    batches = [events.slice(start, 1_000) for start in range(0, len(moments), 1_000)]
    written = write(tmp_path, columns, batches, SMALL_STRIPES)
    tail = read_tail(FS, written.path)
    assert tail.user_metadata[KEY_INDEX] == key_index_of_rows(written.path)
    found = exact_rows(written.path)
    assert [row[1] for row in found] == [divmod(moment, 10**9) for moment in moments]
    assert [row[2] for row in found] == [f"text {i}" for i in range(len(moments))]
    # Added up from the stripes of both: nothing may be missing.
    identifier, timestamp, text = tail.footer.statistics[7:]
    assert (identifier.integers.minimum, identifier.integers.maximum) == (0, len(moments) - 1)
    assert identifier.values == timestamp.values == len(moments)
    assert timestamp.timestamps.minimum_utc == early // 10**6
    assert timestamp.timestamps.maximum_utc == (late + len(moments) - 1) // 10**6
    assert (text.strings.minimum, text.strings.maximum) == (b"text 0", b"text 9999")


def test_only_the_piece_with_an_early_fraction_uses_the_row_encoder(tmp_path: Path) -> None:
    columns = [Column(name="t", type="timestamp")]
    pieces = 6
    moments = [nanoseconds("1950-01-01 00:00:00.5")] + [0] * (pieces * PIECE_ROWS - 1)
    events = inserts(pa.record_batch({"t": pa.array(moments, NANOSECONDS)}))
    path = str(tmp_path / "bucket_00000")
    kinds = []

    class Writer(AcidFileWriter):
        def _start(self, schema: pa.Schema | None) -> Encoder:
            encoder = super()._start(schema)
            kinds.append(type(encoder).__name__)
            return encoder

    with Writer(FS, path, columns, SMALL_STRIPES, is_delete=False) as writer:
        for piece in range(pieces):
            writer.write(events.slice(piece * PIECE_ROWS, PIECE_ROWS))
        writer.close()
    assert kinds[0] == "RowEncoder"
    assert set(kinds[1:]) == {"ArrowEncoder"}


@pytest.mark.parametrize("texts", [["a\0c", "a\0b"], ["", "\0"], ["ä", "x\0"]])
def test_bounds_of_strings_with_nul_characters_are_omitted(
    tmp_path: Path, texts: list[str]
) -> None:
    columns = [Column(name="s", type="string"), Column(name="n", type="array<string>")]
    rows = pa.record_batch({"s": ["clean"] * len(texts), "n": [[text] for text in texts]})
    tail = read_tail(FS, write(tmp_path, columns, [inserts(rows)]).path)
    assert tail.row_index_stride == 0
    for statistics in (tail.footer.statistics, tail.metadata.stripes[0].columns):
        assert not statistics[9].HasField("strings")
        assert statistics[9].binaries.sum == sum(len(text.encode()) for text in texts)
        assert statistics[9].values == len(texts)
        assert statistics[7].strings.minimum == b"clean"


def test_the_rows_of_a_stripe_are_limited_even_if_they_compress_to_almost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orc_file, "_MOST_STRIPE_ROWS", 40_000)
    monkeypatch.setattr(orc_file, "_FEWEST_STRIPE_ROWS", 5_000)
    columns = [*ID, *(Column(name=f"t{i}", type="string") for i in range(3))]

    def same(first: int, count: int) -> pa.RecordBatch:
        texts = {f"t{i}": ["same"] * count for i in range(3)}
        return inserts(pa.record_batch({"id": [1] * count, **texts}), first)

    written = write(tmp_path, columns, (same(i * 9_000, 9_000) for i in range(10)))
    tail = read_tail(FS, written.path)
    limit = 40_000 // 3
    assert all(limit <= s.rows < limit + PIECE_ROWS for s in tail.stripes[:-1])
    assert sum(s.rows for s in tail.stripes) == 90_000
    assert tail.user_metadata[KEY_INDEX] == key_index_of_rows(written.path)
    assert tail.integer_range(4) == (0, 89_999)
    # Delete events hold no text, so that theirs need not be as many.
    events = deletes([(1, B0, i) for i in range(45_000)], columns)
    assert write(tmp_path, columns, [events], is_delete=True).stripes == 2


def test_bounds_of_long_strings_are_truncated(tmp_path: Path) -> None:
    columns = [Column(name="s", type="string")]
    texts = ["a", "b" * 1025]
    tail = read_tail(FS, write(tmp_path, columns, [inserts(pa.record_batch({"s": texts}))]).path)
    for statistics in (tail.footer.statistics[7], tail.metadata.stripes[0].columns[7]):
        assert statistics.strings.minimum == b"a"
        assert statistics.strings.maximum == b"b" * 1023 + b"c"
        assert statistics.strings.sum == 1026
    assert tail.row_index_stride == 10_000


@pytest.mark.parametrize("end", ["", "\0"])
def test_batches_of_long_strings_are_small_with_or_without_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(view, "BATCH_BYTES", 1_000_000)
    columns = [Column(name="s", type="string")]
    rows = pa.record_batch({"s": ["b" * 20_000 + end] * 1_000})
    tail = read_tail(FS, write(tmp_path, columns, [inserts(rows)]).path)
    assert 40 < fitting_rows(tail, [7], 16_384) <= 50


@pytest.mark.parametrize(
    ("text", "values", "kind", "least", "greatest"),
    [
        ("int", [3, None, -7], "integers", -7, 3),
        ("double", [0.5, -1.5, None], "doubles", -1.5, 0.5),
        ("string", ["b", "ä", "", None], "strings", b"", "ä".encode()),
        ("char(3)", ["b", None, "a"], "strings", b"a  ", b"b  "),
        ("date", ["0001-01-01", "9999-12-31"], "dates", -719162, 2932896),
        ("decimal(38,2)", ["-10.50", "2.00", None], "decimals", "-10.5", "2"),
    ],
)
def test_statistics_of_columns_are_exact(
    tmp_path: Path, text: str, values: list[object], kind: str, least: object, greatest: object
) -> None:
    columns, rows = columns_of({"c": text}), pa.record_batch({"c": array_of(text, values)})
    statistics = read_tail(FS, write(tmp_path, columns, [inserts(rows)]).path).footer.statistics[7]
    typed = getattr(statistics, kind)
    assert (typed.minimum, typed.maximum) == (least, greatest)
    assert statistics.values == sum(value is not None for value in values)
    assert statistics.has_null == (None in values)


# --- delete events ---


@pytest.mark.promise("F4")
def test_a_delete_event_has_the_identity_and_no_row(tmp_path: Path) -> None:
    keys = [(1, B0, 5), (1, encode(BucketId(0), StatementId(1)), 0), (3, B0, 2)]
    written = write(tmp_path, NESTED.columns, [deletes(keys, NESTED.columns)], is_delete=True)
    table = orc.ORCFile(written.path).read()
    assert table["operation"].to_pylist() == [2, 2, 2]
    assert table["currentTransaction"].to_pylist() == [9, 9, 9]
    found = [table[name].to_pylist() for name in ("originalTransaction", "bucket", "rowId")]
    assert list(zip(*found, strict=True)) == keys
    assert table["row"].null_count == 3
    tail = read_tail(FS, written.path)
    assert tail.user_metadata[ACID_STATS] == "0,0,3"
    assert tail.user_metadata[KEY_INDEX] == f"3,{B0},2;"


def test_consecutive_delete_events_take_less_than_one_bit_each(tmp_path: Path) -> None:
    events = deletes([(1, B0, i) for i in range(50_000)], NESTED.columns)
    empty = write(tmp_path / "empty", NESTED.columns, [], is_delete=True)
    written = write(tmp_path / "full", NESTED.columns, [events], is_delete=True)
    assert written.size_bytes - empty.size_bytes < 50_000 / 8


def test_slices_of_delete_events_keep_their_keys(tmp_path: Path) -> None:
    events = deletes([(1, B0, i * 3) for i in range(10_000)], NESTED.columns)
    batches = [events.slice(start, 777) for start in range(0, 10_000, 777)]
    written = write(tmp_path, NESTED.columns, batches, SMALL_STRIPES, is_delete=True)
    table = orc.ORCFile(written.path).read()
    assert table["rowId"].to_pylist() == [i * 3 for i in range(10_000)]
    assert table["row"].null_count == 10_000
    assert read_tail(FS, written.path).user_metadata[KEY_INDEX] == key_index_of_rows(written.path)


def test_rows_with_bucket_properties_of_codec_version_0_can_be_deleted(tmp_path: Path) -> None:
    events = deletes([(0, 3, 1), (0, 3, 2)], ID)
    assert write(tmp_path, ID, [events], is_delete=True, name="bucket_00003").rows == 2


# --- what is refused ---


@pytest.mark.parametrize(
    "batches",
    [
        [numbered(0, 3), numbered(2, 3)],
        [numbered(0, 3, write_id=2), numbered(3, 3, write_id=1)],
        [numbered(0, 3).take(pa.array([0, 2, 1]))],
        [numbered(0, 3).take(pa.array([0, 1, 1]))],
    ],
)
def test_row_identities_that_do_not_increase_are_refused(
    tmp_path: Path, batches: list[pa.RecordBatch]
) -> None:
    with pytest.raises(CorruptFileError, match="identities do not rise"):
        write(tmp_path, ID, batches)


def test_statement_ids_of_a_bucket_must_increase_within_a_write_id(tmp_path: Path) -> None:
    rows = pa.record_batch({"id": [1, 2]})
    batches = [
        insert_events(rows, WriteId(1), encode(BucketId(0), StatementId(s)), RowId(0))
        for s in (0, 1, 4)
    ]
    assert write(tmp_path, ID, batches).rows == 6
    with pytest.raises(CorruptFileError, match="do not rise"):
        write(tmp_path, ID, reversed(batches))


def with_column(batch: pa.RecordBatch, name: str, values: list[object]) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, name, pa.array(values, batch.schema.field(name).type))


@pytest.mark.parametrize(
    ("reason", "batch", "is_delete"),
    [
        ("bucket 1", with_column(numbered(0, 2), "bucket", [B0, encode(BucketId(1))]), False),
        ("bucket property", with_column(numbered(0, 1), "bucket", [-1]), False),
        ("contains events other than", with_column(numbered(0, 2), "operation", [0, 1]), False),
        ("contains events other than", numbered(0, 2), True),
        ("contains events other than", deletes([(1, B0, 1)], ID), False),
        ("no row", with_column(numbered(0, 2), "row", [{"id": 1}, None]), False),
        ("holds a row", with_column(deletes([(1, B0, 1)], ID), "row", [{"id": 1}]), True),
        ("NULL", with_column(numbered(0, 2), "rowId", [1, None]), False),
        (
            "original and current write IDs",
            with_column(numbered(0, 2), "currentTransaction", [1, 2]),
            False,
        ),
    ],
)
def test_invalid_events_are_refused(
    tmp_path: Path,
    reason: str,
    batch: pa.RecordBatch,
    is_delete: bool,
) -> None:
    with pytest.raises(CorruptFileError, match=reason):
        write(tmp_path, ID, [batch], is_delete=is_delete)


def test_a_batch_with_a_different_column_type_is_refused(tmp_path: Path) -> None:
    rows = pa.record_batch({"id": pa.array([1], pa.int32())})
    with pytest.raises(TypeMismatchError, match="'id' is bigint"):
        write(tmp_path, ID, [inserts(rows)])


def test_batches_with_different_schemas_in_one_file_are_refused(tmp_path: Path) -> None:
    columns = [Column(name="t", type="timestamp")]
    seconds = pa.record_batch({"t": pa.array([1], pa.timestamp("s"))})
    micros = pa.record_batch({"t": pa.array([1], pa.timestamp("us"))})
    with pytest.raises(TypeMismatchError):
        write(tmp_path, columns, [inserts(seconds), inserts(micros, 1)])


def test_timestamp_pairs_inside_and_outside_the_nanosecond_range_can_be_mixed(
    tmp_path: Path,
) -> None:
    columns = [Column(name="t", type="timestamp")]
    near, far = [{"seconds": 5, "nanos": 5}], [{"seconds": 253402300799, "nanos": 999_999_999}]
    batches = [
        inserts(pa.record_batch({"t": pa.array(pairs, PAIR_TYPE)}), at)
        for at, pairs in enumerate((near, far, near))
    ]
    written = write(tmp_path, columns, batches)
    found = exact_rows(written.path)
    assert found == [((5, 5),), ((253402300799, 999_999_999),), ((5, 5),)]


@pytest.mark.parametrize("name", ["000000_0", "part-0", "bucket_00000_flush_length", ""])
def test_a_path_that_does_not_name_a_bucket_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidNameError):
        write(tmp_path, ID, [], name=name)


def test_a_union_is_refused_before_a_file_exists(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTableError):
        write(tmp_path, [Column(name="u", type="uniontype<int,string>")], [])
    assert not (tmp_path / "delta").exists()


@pytest.mark.parametrize(
    "options",
    [
        *({"compression": name} for name in ("lzo", "brotli")),
        *({"compression_block_bytes": size} for size in (0, 1000, 8 << 20)),
        {"stripe_size_bytes": 0},
        {"row_index_stride": -1},
    ],
)
def test_invalid_writer_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        WriterOptions(**options)


def test_the_error_for_a_missing_permission_names_the_file(tmp_path: Path) -> None:
    class Sealed:
        def create_dir(self, *_: object, **__: object) -> None:
            raise PermissionError("sealed")

    with pytest.raises(LocationPermissionError, match="bucket_00000"):
        AcidFileWriter(
            Sealed(), str(tmp_path / "bucket_00000"), ID, WriterOptions(), is_delete=False
        )


# --- ends ---


def test_an_aborted_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    writer = AcidFileWriter(FS, str(path), ID, WriterOptions(), is_delete=False)
    writer.write(numbered(0, 10))
    writer.abort()
    assert not path.exists()
    writer.abort()


def test_leaving_the_context_without_close_removes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bucket_00000"
    with AcidFileWriter(FS, str(path), ID, WriterOptions(), is_delete=False) as writer:
        writer.write(numbered(0, 10))
    assert not path.exists()


def test_a_stripe_that_ends_at_an_unexpected_row_raises_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders.ArrowEncoder, "add", blind_add)
    with pytest.raises(CorruptFileError, match="the encoder ended stripes at unexpected rows"):
        write(tmp_path, ID, [numbered(0, 3 * PIECE_ROWS)], SMALL_STRIPES)
    assert not (tmp_path / "delta" / "bucket_00000").exists()


def blind_add(encoder: encoders.ArrowEncoder, piece: pa.RecordBatch) -> bool:
    encoder._writer.write(pa.Table.from_batches([piece]))
    return False


def test_the_bounds_in_row_indexes_are_right_for_every_reader(tmp_path: Path) -> None:
    columns = columns_of({"id": "int", "s": "string", "d": "double"})
    texts = ["a\uff08", "b", "\U0001f600"] * (PIECE_ROWS // 3)
    rows = pa.record_batch(
        {
            "id": pa.array(range(len(texts)), pa.int32()),
            "s": texts,
            "d": [0.0, float("nan"), 1.0] * (PIECE_ROWS // 3),
        }
    )
    options = WriterOptions(row_index_stride=1000)
    written = write(tmp_path, columns, [inserts(rows)], options)
    tail = read_tail(FS, written.path)
    assert tail.row_index_stride == 1000
    with FS.open_input_file(written.path) as source:
        (stripe,) = [stripe_content(source, tail, n) for n in range(len(tail.stripes))]
        entries = {}
        for stream in stripe.streams:
            if stream.kind == ROW_INDEX:
                stored = source.read_at(stream.length, stream.content.offset)
                plain = decompress(stored, tail.compression, tail.compression_block_bytes)
                entries[stream.column] = pb.RowIndex.FromString(plain).entries
    identifier, text, number = (tail.column_id("row", c.name) for c in columns)
    assert len(entries[identifier]) == -(-len(texts) // 1000)
    assert all(entry.statistics.HasField("integers") for entry in entries[identifier])
    assert not any(entry.statistics.HasField("strings") for entry in entries[text])
    assert not any(entry.statistics.HasField("doubles") for entry in entries[number])
    whole = orc.ORCFile(written.path).read()
    assert [row["s"] for row in whole.column("row").to_pylist()] == texts
