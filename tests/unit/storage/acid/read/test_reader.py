"""Events of one file: identity, columns by name, streaming, and what is refused."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    StorageError,
    UnknownColumnError,
    UnsupportedFileError,
)
from airflow_hiveacid.format.ids import BucketProperty, RowId, WriteId
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import IDENTITY_SCHEMA
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind, SyntheticIdentity, reader
from airflow_hiveacid.storage.acid.read.reader import read_events, read_identity, read_schema
from airflow_hiveacid.storage.orc.footer import TypeKind
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.splice import stripe_footer
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.unit.storage.orc_tables import (
    B0,
    B1,
    COLUMNS,
    ROOT,
    Event,
    acid_file as acid,
    event,
    insert,
    tombstone,
    with_tail,
    write_acid,
    write_plain,
    write_tables,
)

LOCAL = pafs.LocalFileSystem()


def original(path: Path, first: int = 0, write_id: int = 0) -> AcidFile:
    identity = SyntheticIdentity(
        write_id=WriteId(write_id), bucket_property=BucketProperty(B1), first_row_id=RowId(first)
    )
    return acid(path, FileKind.ORIGINAL, synthetic=identity)


def columns(text: str) -> list[Column]:
    return [
        Column(name=n, type=t) for n, _, t in (part.partition(" ") for part in text.split("; "))
    ]


def rows(file: AcidFile, wanted: Any = COLUMNS, **options: Any) -> list[Any]:  # noqa: ANN401
    return [r for b in read_events(file, wanted, **options) for r in b.column("row").to_pylist()]


def identities(file: AcidFile, **options: Any) -> list[tuple[int, ...]]:  # noqa: ANN401
    return [
        row
        for b in read_identity(file, **options)
        for row in zip(*(c.to_pylist() for c in b.columns), strict=True)
    ]


# ---- what comes out ------------------------------------------------------------------------------


@pytest.mark.promise("F1")
def test_events_are_returned_in_the_acid_schema(tmp_path: Path) -> None:
    file = acid(write_acid(tmp_path / "b", [insert(1, 0, 7), insert(1, 1, 8, current=1)]))
    (batch,) = read_events(file, COLUMNS)
    assert batch.schema == read_schema(COLUMNS)
    assert batch.schema.names == list(ROOT)
    assert batch.to_pylist()[1] == {
        "operation": 0,
        "originalTransaction": 1,
        "bucket": B0,
        "rowId": 1,
        "currentTransaction": 1,
        "row": {"id": 8, "name": "n8"},
    }


def test_delete_events_have_identity_and_no_row(tmp_path: Path) -> None:
    file = acid(
        write_acid(tmp_path / "b", [tombstone(1, 0, 3), tombstone(2, 5, 3)]), FileKind.DELETE
    )
    (batch,) = read_events(file, COLUMNS)
    assert batch.schema == read_schema(COLUMNS)
    assert batch.column("row").null_count == 2
    assert identities(file) == [(2, 1, B0, 0, 3), (2, 2, B0, 5, 3)]


def test_the_identity_can_be_read_without_the_row(tmp_path: Path) -> None:
    file = acid(write_acid(tmp_path / "b", [insert(1, 0, 7), insert(4, 0, 8)]))
    assert identities(file) == [(0, 1, B0, 0, 1), (0, 4, B0, 0, 4)]
    assert next(iter(read_identity(file))).schema == IDENTITY_SCHEMA


@pytest.mark.promise("R4")
def test_only_the_requested_columns_are_decoded(tmp_path: Path) -> None:
    path = write_acid(tmp_path / "b", [insert(1, i, i) for i in range(100)])
    _spoil(path, column_id=8)
    assert rows(acid(path), data_columns=["id"])[7] == {"id": 7}
    assert rows(acid(path), data_columns=[]) == [{}] * 100
    with pytest.raises(CorruptFileError, match="decoded"):
        rows(acid(path), data_columns=["name"])


def _spoil(path: Path, column_id: int) -> None:
    """Damage every byte of one column."""
    tail = read_tail(LOCAL, str(path))
    content = bytearray(path.read_bytes())
    with LOCAL.open_input_file(str(path)) as source:
        streams = stripe_footer(source, tail, tail.footer.stripes[0]).streams
    at = tail.stripes[0].offset
    for stream in streams:
        if stream.column == column_id:
            content[at : at + stream.length] = b"\xff" * stream.length
        at += stream.length
    path.write_bytes(content)


def test_the_error_for_an_unknown_column_lists_the_existing_columns(tmp_path: Path) -> None:
    file = acid(write_acid(tmp_path / "b", [insert(1, 0, 7)]))
    with pytest.raises(UnknownColumnError, match="'nothing'; it has id, name"):
        rows(file, data_columns=["nothing"])


@pytest.mark.promise("F12")
def test_a_file_without_rows_is_read_as_empty(tmp_path: Path) -> None:
    assert rows(acid(write_acid(tmp_path / "b"))) == []
    assert identities(acid(tmp_path / "b")) == []
    assert rows(original(write_plain(tmp_path / "000000_0"))) == []


def test_batches_respect_the_requested_size_and_keep_the_order_of_rows(tmp_path: Path) -> None:
    stripes = [[insert(w, i, w * 10 + i) for i in range(5)] for w in (1, 2, 3)]
    file = acid(write_acid(tmp_path / "b", *stripes))
    batches = list(read_events(file, COLUMNS, batch_rows=2))
    assert max(b.num_rows for b in batches) == 2
    assert [r["id"] for b in batches for r in b.column("row").to_pylist()] == [
        w * 10 + i for w in (1, 2, 3) for i in range(5)
    ]


def test_selected_stripes_can_be_read_without_the_others(tmp_path: Path) -> None:
    stripes = [[insert(w, i, w * 10 + i) for i in range(3)] for w in (1, 2, 3)]
    file = acid(write_acid(tmp_path / "b", *stripes))
    assert [r["id"] for r in rows(file, stripes=[2, 0])] == [10, 11, 12, 30, 31, 32]
    assert [r[1] for r in identities(file, stripes=[1])] == [2, 2, 2]
    assert rows(file, stripes=[]) == []


def test_a_file_above_256_kilobytes_is_read_correctly(tmp_path: Path) -> None:
    many = [insert(1, i, i) for i in range(60_000)]
    path = write_acid(tmp_path / "b", many, compression="uncompressed")
    assert path.stat().st_size > 256 * 1024
    assert [r["name"] for r in rows(acid(path))] == [f"n{i}" for i in range(60_000)]


def test_reading_a_large_stripe_needs_less_memory_than_a_third_of_its_size(tmp_path: Path) -> None:
    rows_in_stripe = 800_000
    numbers = pa.array(range(rows_in_stripe), pa.int64())
    row = pa.StructArray.from_arrays([numbers, numbers.cast(pa.string())], names=["id", "name"])
    constant = [pa.repeat(pa.scalar(v, t), rows_in_stripe) for v, t in _CONSTANT]
    table = pa.table([*constant[:3], numbers, constant[3], row], names=list(ROOT))
    path = write_tables(tmp_path / "b", [table], table.schema, stripe_size=256 << 20)
    assert read_tail(LOCAL, str(path)).rows == rows_in_stripe
    assert len(read_tail(LOCAL, str(path)).stripes) == 1
    # In a process of its own: the memory of this one belongs to other tests as well.
    command = [sys.executable, "-c", _READ_WITH_PEAK, str(path)]
    roots = os.pathsep.join(path for path in sys.path if path)
    child = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    seen, peak = map(int, child.stdout.split())
    assert seen == rows_in_stripe
    assert 0 < peak < table.nbytes / 3


_READ_WITH_PEAK = """
import sys
import pyarrow as pa
from airflow_hiveacid.storage.acid.read.reader import read_events
from pathlib import Path
from tests.unit.storage.acid.read.test_reader import acid, columns

seen = 0
for batch in read_events(acid(Path(sys.argv[1])), columns("id bigint; name string")):
    seen += batch.num_rows
print(seen, pa.default_memory_pool().max_memory())
"""

_CONSTANT = [(0, pa.int32()), (1, pa.int64()), (B0, pa.int32()), (1, pa.int64())]


def test_a_file_can_be_pickled_and_then_read(tmp_path: Path) -> None:
    file = acid(write_acid(tmp_path / "b", [insert(1, 0, 7)]))
    assert rows(pickle.loads(pickle.dumps(file))) == [{"id": 7, "name": "n7"}]  # noqa: S301


# ---- files without ACID columns ------------------------------------------------------------------


@pytest.mark.promise("D7")
def test_rows_of_an_original_file_are_numbered_by_their_position(tmp_path: Path) -> None:
    stripes = [[{"id": i, "name": "x"} for i in range(3)] for _ in range(3)]
    file = original(write_plain(tmp_path / "000001_0", *stripes), first=10)
    assert identities(file, batch_rows=2) == [(0, 0, B1, 10 + i, 0) for i in range(9)]
    assert [r[3] for r in identities(file, stripes=[0, 2])] == [10, 11, 12, 16, 17, 18]
    found = list(read_events(file, COLUMNS, data_columns=["id"], stripes=[1]))
    assert found[0].column("rowId").to_pylist() == [13, 14, 15]
    assert [r["id"] for r in found[0].column("row").to_pylist()] == [0, 1, 2]


def test_a_column_missing_from_an_original_file_is_null_in_every_row(tmp_path: Path) -> None:
    file = original(write_plain(tmp_path / "000001_0", [{"id": 1, "name": "x"}] * 3), write_id=4)
    found = [b.to_pylist() for b in read_events(file, columns("new string"), batch_rows=2)]
    assert [r["row"] for b in found for r in b] == [{"new": None}] * 3
    assert [r["rowId"] for b in found for r in b] == [0, 1, 2]
    assert [r["currentTransaction"] for b in found for r in b] == [4, 4, 4]


def test_an_original_file_requires_a_synthetic_identity(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="synthetic"):
        acid(write_plain(tmp_path / "x", []), FileKind.ORIGINAL)


# ---- columns by name -----------------------------------------------------------------------------


@pytest.mark.promise("R15", "D11")
def test_columns_are_found_by_name_in_any_case_and_missing_ones_are_null(tmp_path: Path) -> None:
    file = acid(write_acid(tmp_path / "b", [insert(1, 0, 7)]))
    wanted = columns("new array<int>; NAME string; id int")
    assert rows(file, wanted) == [{"new": None, "NAME": "n7", "id": 7}]


def test_a_renamed_column_keeps_its_values_if_columns_are_matched_by_position(
    tmp_path: Path,
) -> None:
    file = acid(write_acid(tmp_path / "b", [insert(1, 0, 7)]))
    wanted = columns("id int; title string; new int")
    assert rows(file, wanted) == [{"id": 7, "title": None, "new": None}]
    by_position = rows(file, wanted, matching=Matching.POSITION)
    assert by_position == [{"id": 7, "title": "n7", "new": None}]
    only = rows(file, wanted, matching=Matching.POSITION, data_columns=["title"])
    assert only == [{"title": "n7"}]


def test_columns_called_col_n_are_found_by_position(tmp_path: Path) -> None:
    row = pa.struct([("_col0", pa.int32()), ("_col1", pa.string())])
    file = acid(write_acid(tmp_path / "b", [event(1, 0, {"_col0": 7, "_col1": "x"})], row=row))
    assert rows(file) == [{"id": 7, "name": "x"}]


def test_names_of_acid_columns_may_be_lower_case(tmp_path: Path) -> None:
    lower = tuple(name.lower() for name in ROOT)
    file = acid(write_acid(tmp_path / "b", [insert(1, 0, 7)], names=lower))
    assert rows(file) == [{"id": 7, "name": "n7"}]


def test_fields_of_nested_structs_are_found_by_name(tmp_path: Path) -> None:
    inner = pa.struct([("a", pa.int32()), ("B", pa.string())])
    row = pa.struct([("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])
    value = {"a": 1, "B": "x"}
    stored = [
        event(1, 0, {"s": value, "l": [value, None], "m": [("k", value)]}),
        event(1, 1, {"s": None, "l": None, "m": None}),
        event(1, 2, {"s": {"a": None, "B": None}, "l": [], "m": []}),
    ]
    file = acid(write_acid(tmp_path / "b", stored, row=row))
    new = "struct<b:string,c:double,a:bigint>"
    assert rows(file, columns(f"s {new}; l array<{new}>; m map<string,{new}>")) == [
        {
            "s": {"b": "x", "c": None, "a": 1},
            "l": [{"b": "x", "c": None, "a": 1}, None],
            "m": [("k", {"b": "x", "c": None, "a": 1})],
        },
        {"s": None, "l": None, "m": None},
        {"s": {"b": None, "c": None, "a": None}, "l": [], "m": []},
    ]


def test_types_are_promoted_at_every_level_of_nesting(tmp_path: Path) -> None:
    row = pa.struct([("i", pa.int32()), ("l", pa.list_(pa.int16())), ("d", pa.decimal128(5, 2))])
    file = acid(
        write_acid(tmp_path / "b", [event(1, 0, {"i": 7, "l": [1, None], "d": 1})], row=row)
    )
    wanted = columns("i decimal(10,1); l array<string>; d decimal(9,4)")
    found = rows(file, wanted)
    assert [str(found[0][k]) for k in "ild"] == ["7.0", "['1', None]", "1.0000"]


def test_a_file_type_that_cannot_be_converted_to_the_table_type_is_refused(tmp_path: Path) -> None:
    file = acid(write_acid(tmp_path / "b", [insert(1, 0, 7)]))
    for wanted in ("id array<int>", "name struct<a:int>", "id date", "name uniontype<int,string>"):
        with pytest.raises(UnsupportedFileError, match="cannot be read as"):
            rows(file, columns(wanted))


def test_char_values_are_padded_and_varchar_values_are_truncated(tmp_path: Path) -> None:
    row = pa.struct([("c", pa.string()), ("v", pa.string())])
    file = acid(write_acid(tmp_path / "b", [event(1, 0, {"c": "ab", "v": "äbcd "})], row=row))
    assert rows(file, columns("c char(4); v varchar(3)")) == [{"c": "ab  ", "v": "äbc"}]


@pytest.mark.parametrize(
    ("kind", "type_"), [(TypeKind.VARCHAR, "varchar(3)"), (TypeKind.CHAR, "char(3)")]
)
def test_text_that_is_longer_than_its_file_declares_is_truncated(
    tmp_path: Path, kind: TypeKind, type_: str
) -> None:
    row = pa.struct([("v", pa.string())])
    path = write_acid(tmp_path / "b", [event(1, 0, {"v": "äbcdef"})], row=row)

    def declare(footer: pb.Footer, _: object) -> None:
        leaf = footer.types[-1]
        leaf.kind, leaf.maximum_length = int(kind), 3

    with_tail(path, declare)
    assert rows(acid(path), columns(f"v {type_}")) == [{"v": "äbc"}]


def test_every_type_is_read_as_it_was_written(tmp_path: Path) -> None:
    types = {
        "boolean": (pa.bool_(), True),
        "tinyint": (pa.int8(), -128),
        "smallint": (pa.int16(), 32767),
        "bigint": (pa.int64(), -(1 << 63)),
        "float": (pa.float32(), 1.5),
        "double": (pa.float64(), -2.25),
        "binary": (pa.binary(), b"\x00\xff"),
        "date": (pa.date32(), dt.date(1, 1, 1)),
        "timestamp": (pa.timestamp("ns"), dt.datetime(1969, 7, 20, 1, 2, 3)),  # noqa: DTZ001
        "map<int,array<string>>": (pa.map_(pa.int32(), pa.list_(pa.string())), [(1, ["x", None])]),
    }
    row = pa.struct([(f"c{i}", t) for i, (t, _) in enumerate(types.values())])
    value = {f"c{i}": v for i, (_, v) in enumerate(types.values())}
    nothing = dict.fromkeys(value)
    file = acid(write_acid(tmp_path / "b", [event(1, 0, value), event(1, 1, nothing)], row=row))
    wanted = [Column(name=f"c{i}", type=t) for i, t in enumerate(types)]
    assert rows(file, wanted) == [value, nothing]


# ---- timestamps ----------------------------------------------------------------------------------

FAR = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - wall clock
NEAR = dt.datetime(2020, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001
OLD = dt.datetime(1600, 1, 1, 0, 0, 0, 5)  # noqa: DTZ001
STAMPS = "ts timestamp; deep array<struct<t:timestamp,s:string>>"


def stamps(path: Path, *values: dt.datetime | None) -> AcidFile:
    micros = pa.timestamp("us")
    deep = pa.list_(pa.struct([("t", micros), ("s", pa.string())]))
    row = pa.struct([("ts", micros), ("deep", deep)])
    half = len(values) // 2
    events = [
        event(1, i, {"ts": v, "deep": [{"t": v, "s": "x"}, None, {"t": FAR, "s": "y"}]})
        for i, v in enumerate(values)
    ]
    return acid(write_acid(path, events[:half], events[half:], row=row))


def pair(value: dt.datetime | None) -> dict[str, int] | None:
    if value is None:
        return None
    past = value - dt.datetime(1970, 1, 1)  # noqa: DTZ001
    return {"seconds": past // dt.timedelta(seconds=1), "nanos": value.microsecond * 1000}


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_timestamps_outside_the_nanosecond_range_are_exact_at_every_level(
    tmp_path: Path, batch_rows: int
) -> None:
    values = [NEAR, None, FAR, OLD, FAR, None, NEAR]
    file = stamps(tmp_path / "b", *values)
    found = rows(file, columns(STAMPS), timestamps=TimestampForm.PAIR, batch_rows=batch_rows)
    assert [r["ts"] for r in found] == [pair(v) for v in values]
    assert [r["deep"][0]["t"] for r in found] == [pair(v) for v in values]
    assert [r["deep"][2] for r in found] == [{"t": pair(FAR), "s": "y"}] * 7
    micros = rows(file, columns(STAMPS), timestamps=TimestampForm.MICROSECONDS)
    assert [r["ts"] for r in micros] == values


def test_a_timestamp_that_does_not_fit_the_requested_form_raises_an_error(
    tmp_path: Path,
) -> None:
    file = stamps(tmp_path / "b", NEAR, FAR)
    with pytest.raises(UnsupportedFileError, match="64 bits of ns"):
        rows(file, columns("ts timestamp"))
    assert rows(file, columns(STAMPS), data_columns=[]) == [{}, {}]
    row = pa.struct([("ts", pa.timestamp("ns"))])
    odd = acid(write_acid(tmp_path / "c", [event(1, 0, {"ts": 5})], row=row))
    with pytest.raises(UnsupportedFileError, match="64 bits of us"):
        rows(odd, columns("ts timestamp"), timestamps=TimestampForm.MICROSECONDS)
    assert rows(odd, columns("ts timestamp"))[0]["ts"].value == 5


def test_timestamps_outside_the_nanosecond_range_can_be_read_as_strings(tmp_path: Path) -> None:
    file = stamps(tmp_path / "b", FAR, None)
    found = rows(file, columns("ts string"))
    assert [r["ts"] for r in found] == ["9999-12-31 23:59:59.999999", None]


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "zstd", "snappy", "lz4"])
def test_timestamps_outside_the_nanosecond_range_are_exact_with_every_compression(
    tmp_path: Path, compression: str
) -> None:
    row = pa.struct([("ts", pa.timestamp("us"))])
    values = [FAR - dt.timedelta(days=i, microseconds=i) for i in range(3000)]
    events = [event(1, i, {"ts": v}) for i, v in enumerate(values)]
    path = write_acid(tmp_path / "b", events, row=row, compression=compression)
    found = rows(acid(path), columns("ts timestamp"), timestamps=TimestampForm.MICROSECONDS)
    assert [r["ts"] for r in found] == values


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "events", "what"),
    [
        (FileKind.DATA, [event(1, 0, None)], "NULL"),
        (FileKind.DATA, [insert(1, 0, 1, operation=3)], "other than INSERT"),
        (FileKind.DELETE, [insert(1, 0, 1)], "other than DELETE"),
        (FileKind.DATA, [(0, None, B0, 0, 1, {"id": 1, "name": "x"})], "NULL"),
        (FileKind.DELETE, [(2, 1, B0, 0, None, None)], "NULL"),
    ],
)
def test_events_with_missing_values_or_wrong_operation_are_corrupt(
    tmp_path: Path, kind: FileKind, events: list[Event], what: str
) -> None:
    file = acid(write_acid(tmp_path / "b", events), kind)
    with pytest.raises(CorruptFileError, match=what):
        identities(file)


@pytest.mark.parametrize(
    "stripes",
    [
        [[insert(2, 0, 1), insert(1, 0, 1)]],
        [[insert(1, 1, 1), insert(1, 0, 1)]],
        [[insert(1, 0, 1, bucket=B1), insert(1, 0, 1)]],
        [[insert(2, 0, 1)], [insert(1, 0, 1)]],
    ],
)
def test_rows_in_wrong_order_are_refused_with_the_way_out(
    tmp_path: Path, stripes: list[list[Event]]
) -> None:
    file = acid(write_acid(tmp_path / "b", *stripes))
    with pytest.raises(UnsupportedFileError, match=r"order of row IDs.*INSERT OVERWRITE") as caught:
        rows(file)
    assert "damaged" not in str(caught.value)


def test_rows_with_write_ids_outside_of_their_directory_are_refused(tmp_path: Path) -> None:
    path = write_acid(tmp_path / "b", [insert(3, 0, 1)])
    assert len(rows(acid(path, least_write_id=WriteId(3)))) == 1
    with pytest.raises(UnsupportedFileError, match=r"lower write IDs than its directory.*INSERT"):
        rows(acid(path, least_write_id=WriteId(4)))
    with pytest.raises(UnsupportedFileError, match=r"a write ID above 2.*INSERT OVERWRITE"):
        rows(acid(path, least_write_id=WriteId(2), greatest_write_id=WriteId(2)))


@pytest.mark.parametrize("batch_rows", [2, 100])
@pytest.mark.parametrize(
    "order",
    [
        [(3, 1), (1, 5), (3, 0), (2, 2), (1, 4)],
        [(1, 5), (3, 1), (1, 4), (2, 2), (3, 0)],  # only from one batch of two to the next
    ],
)
def test_unordered_delete_events_are_sorted(
    tmp_path: Path, order: list[tuple[int, int]], batch_rows: int
) -> None:
    events = [tombstone(w, r, 9) for w, r in order]
    file = acid(write_acid(tmp_path / "b", events[:2], events[2:]), FileKind.DELETE)
    ordered = [(1, 4), (1, 5), (2, 2), (3, 0), (3, 1)]
    assert [(r[1], r[3]) for r in identities(file, batch_rows=batch_rows)] == ordered
    found = [r for b in read_events(file, COLUMNS, batch_rows=batch_rows) for r in b.to_pylist()]
    assert [(r["originalTransaction"], r["rowId"]) for r in found] == ordered
    assert all(r["row"] is None for r in found)


def test_too_many_unordered_delete_events_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_MOST_UNORDERED", 1)
    file = acid(
        write_acid(tmp_path / "b", [tombstone(2, 0, 3), tombstone(1, 0, 3)]), FileKind.DELETE
    )
    with pytest.raises(UnsupportedFileError, match="out of order"):
        identities(file)


def test_a_file_of_the_wrong_kind_is_corrupt(tmp_path: Path) -> None:
    plain = write_plain(tmp_path / "000000_0", [{"id": 1, "name": "x"}])
    with pytest.raises(CorruptFileError, match="no ACID columns"):
        rows(acid(plain))
    with pytest.raises(CorruptFileError, match="has the ACID columns"):
        rows(original(write_acid(tmp_path / "b", [insert(1, 0, 1)])))


@pytest.mark.parametrize("damage", ["not orc", "cut", "stripes"])
def test_a_damaged_file_is_reported_as_corrupt(tmp_path: Path, damage: str) -> None:
    path = write_acid(tmp_path / "b", [insert(1, i, i) for i in range(1000)])
    content = path.read_bytes()
    broken = {
        "not orc": b"x" * 300,
        "cut": content[:-200],
        "stripes": b"ORC" + b"\xff" * 600 + content[603:],
    }
    path.write_bytes(broken[damage])
    with pytest.raises(CorruptFileError, match=r"/b is damaged"):
        rows(acid(path))


def test_a_missing_file_raises_an_error_instead_of_returning_no_rows(tmp_path: Path) -> None:
    file = acid(write_acid(tmp_path / "b", [insert(1, 0, 1)]))
    (tmp_path / "b").unlink()
    with pytest.raises(StorageError, match="does not exist"):
        rows(file)


def test_a_file_is_read_only_up_to_its_committed_length(tmp_path: Path) -> None:
    first = write_acid(tmp_path / "b", [insert(1, 0, 1)]).read_bytes()
    longer = first + b"half a stripe that nobody committed"
    (tmp_path / "b").write_bytes(longer)
    assert rows(acid(tmp_path / "b", length=len(first))) == [{"id": 1, "name": "n1"}]
    with pytest.raises(CorruptFileError):
        rows(acid(tmp_path / "b"))


def test_a_union_is_read_as_a_struct_of_tag_and_values(tmp_path: Path) -> None:
    union = pa.UnionArray.from_sparse(
        pa.array([0, 1, 1], pa.int8()), [pa.array([5, None, None]), pa.array([None, "x", None])]
    )
    table = pa.Table.from_arrays([union], names=["u"])
    path = write_tables(tmp_path / "000000_0", [table], table.schema)
    assert rows(original(path), columns("u uniontype<decimal(3,0),string>")) == [
        {"u": {"tag": 0, "value0": 5, "value1": None}},
        {"u": {"tag": 1, "value0": None, "value1": "x"}},
        {"u": None},
    ]
    with pytest.raises(UnsupportedFileError):
        rows(original(path), columns("u uniontype<bigint>"))


@pytest.mark.parametrize(
    ("type_", "value", "wanted", "text"),
    [
        (pa.string(), "x", "array<int>", "stored as string"),
        (pa.list_(pa.int16()), [1], "int", "stored as array<smallint>"),
        (pa.struct([("d", pa.decimal128(9, 2))]), {"d": 1}, "int", "struct<d:decimal(9,2)>"),
        (pa.map_(pa.int64(), pa.bool_()), [(1, True)], "date", "map<bigint,boolean>"),
        (pa.date32(), dt.date(2024, 1, 5), "int", "stored as date"),
        (pa.string(), "+10000-01-01", "date", "stored as string, and Hive reads the text"),
        (pa.int64(), 1 << 40, "timestamp", "stored as bigint, and Hive reads 1099511627776"),
    ],
)
def test_a_refused_conversion_spells_the_stored_type_as_hive_does(
    tmp_path: Path, type_: pa.DataType, value: object, wanted: str, text: str
) -> None:
    row = pa.struct([("c", type_)])
    file = acid(write_acid(tmp_path / "b", [event(1, 0, {"c": value})], row=row))
    with pytest.raises(UnsupportedFileError, match=re.escape(text)):
        rows(file, columns(f"c {wanted}"))
