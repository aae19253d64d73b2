from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.orc.compression import Compression, compress
from airflow_hiveacid.storage.orc.footer import MAGIC, OrcCalendar, OrcTail, TypeKind
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.tail import parse_tail, read_tail, serialize_tail

FS = LocalFileSystem()
ROWS = 4_000
COMPRESSIONS = {
    "uncompressed": Compression.NONE,
    "zlib": Compression.ZLIB,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def written(path: Path, compression: str = "uncompressed") -> str:
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "nested": pa.array([{"a": [i, -i]} for i in range(ROWS)]),
            "name": [f"name {i}" for i in range(ROWS)],
        }
    )
    file = path / f"{compression}.orc"
    with orc.ORCWriter(str(file), compression=compression, stripe_size=1) as writer:
        writer.write(table)
    return str(file)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_parsed_tail_agrees_with_arrow(tmp_path: Path, compression: str) -> None:
    path = written(tmp_path, compression)
    tail, arrow = read_tail(FS, path), orc.ORCFile(path)
    assert tail.rows == arrow.nrows == ROWS
    assert [s.rows for s in tail.stripes] == [
        arrow.read_stripe(i).num_rows for i in range(arrow.nstripes)
    ]
    assert tail.compression is COMPRESSIONS[compression]
    assert tail.compression_block_bytes == arrow.compression_size
    assert tail.row_index_stride == arrow.row_index_stride == 10_000
    assert tail.file_length == (tmp_path / f"{compression}.orc").stat().st_size
    assert tail.user_metadata == {}
    assert tail.calendar is OrcCalendar.UNKNOWN


def test_types_and_column_ids_are_numbered_depth_first(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    assert [t.kind for t in tail.types] == [
        TypeKind.STRUCT,
        TypeKind.LONG,
        TypeKind.STRUCT,
        TypeKind.LIST,
        TypeKind.LONG,
        TypeKind.STRING,
    ]
    assert tail.column_id() == 0
    assert tail.column_id("nested", "a") == 3
    assert tail.column_id("name") == 5
    assert tail.column_id("NAME") is None
    assert tail.column_id("id", "deeper") is None


def test_integer_ranges_are_given_for_the_file_and_for_each_stripe(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    assert len(tail.stripes) > 2
    assert tail.integer_range(1) == (0, ROWS - 1)
    first = 0
    for at, stripe in enumerate(tail.stripes):
        assert tail.integer_range(1, at) == (first, first + stripe.rows - 1)
        first += stripe.rows
    assert tail.integer_range(5) is None
    assert tail.integer_range(99) is None
    assert tail.integer_range(1, len(tail.stripes)) is None


def test_statistics_are_ignored_without_a_row_index(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    tail.footer.row_index_stride = 0
    assert tail.integer_range(1) is None


def test_a_tail_that_is_longer_than_the_first_read_is_read_whole(tmp_path: Path) -> None:
    columns = {f"c{i}": [f"{i}" * 500] for i in range(200)}
    orc.write_table(pa.table(columns), str(tmp_path / "wide.orc"), compression="uncompressed")
    tail = read_tail(FS, str(tmp_path / "wide.orc"))
    assert len(serialize_tail(tail)) > 64 * 1024
    assert tail.types[0].field_names == tuple(columns)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_rewritten_tail_is_read_by_arrow(tmp_path: Path, compression: str) -> None:
    path = written(tmp_path, compression)
    data = (tmp_path / f"{compression}.orc").read_bytes()
    tail = read_tail(FS, path)
    stripes_end = max(stripe.offset + stripe.length for stripe in tail.stripes)
    tail.footer.metadata.add(name="key", value="väl".encode())
    tail.footer.calendar = OrcCalendar.PROLEPTIC_GREGORIAN
    again = data[:stripes_end] + serialize_tail(tail)
    assert orc.ORCFile(pa.BufferReader(again)).read() == orc.ORCFile(path).read()
    read = parse_tail("again", again, len(again))
    assert read.user_metadata == {"key": "väl"}
    assert read.calendar is OrcCalendar.PROLEPTIC_GREGORIAN
    assert read.footer == tail.footer
    assert read.metadata == tail.metadata


def test_a_file_can_be_read_up_to_a_given_length(tmp_path: Path) -> None:
    path = written(tmp_path)
    length = (tmp_path / "uncompressed.orc").stat().st_size
    with (tmp_path / "uncompressed.orc").open("ab") as file:
        file.write(b"half a stripe of a streaming writer")
    assert read_tail(FS, path, length).file_length == length
    with pytest.raises(CorruptFileError):
        read_tail(FS, path)


@pytest.mark.parametrize("content", [b"", b"O", b"ORC", b"not an ORC file at all", bytes(100)])
def test_a_file_that_is_not_orc_is_reported_as_corrupt(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(CorruptFileError, match=str(tmp_path / "x")):
        read_tail(FS, str(tmp_path / "x"))


def test_a_length_beyond_the_end_of_the_file_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match="ends before"):
        read_tail(FS, written(tmp_path), 1 << 30)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_damaged_tail_raises_an_error_or_is_still_consistent(
    tmp_path: Path, compression: str
) -> None:
    path = written(tmp_path, compression)
    tail = read_tail(FS, path)
    data = serialize_tail(tail)
    dice = random.Random(20260101)
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(dice.randint(1, 3)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        try:
            read = parse_tail(path, bytes(damaged), tail.file_length)
        except (CorruptFileError, UnsupportedFileError):
            continue
        assert sum(stripe.rows for stripe in read.stripes) == read.rows
        assert read.column_id("id") in (None, *range(len(read.types)))


def test_a_truncated_file_is_reported_as_corrupt(tmp_path: Path) -> None:
    path = written(tmp_path, "zlib")
    data = (tmp_path / "zlib.orc").read_bytes()
    for length in (len(data) - 1, len(data) // 2, 10):
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises(CorruptFileError):
            read_tail(FS, str(tmp_path / "cut"))
    assert read_tail(FS, path).rows == ROWS


def again(tail: OrcTail) -> OrcTail:
    """The tail as bytes behind its stripes, and parsed anew."""
    data = serialize_tail(tail)
    end = tail.stripes[-1].offset + tail.stripes[-1].length
    return parse_tail("f.orc", data, end + len(data))


def _first_type(**fields: object) -> Callable[[OrcTail], object]:
    """Give the type of `id` (column 1) these fields."""

    def change(tail: OrcTail) -> None:
        tail.footer.types[1].CopyFrom(pb.Type(**fields))

    return change


def _shared_child(tail: OrcTail) -> None:
    tail.footer.types[2].children[:] = [5]
    tail.footer.types[2].field_names[:] = ["a"]


def _empty(tail: OrcTail) -> None:
    tail.footer.ClearField("rows")
    tail.footer.ClearField("stripes")
    tail.metadata.ClearField("stripes")


def _lost_child(tail: OrcTail) -> None:
    tail.footer.types[3].children[:] = [99]


def _one_byte_of_the_tail(tail: OrcTail) -> None:
    tail.footer.stripes[-1].data_length += 1


def _swap_stripes(tail: OrcTail) -> None:
    first, second = tail.footer.stripes[:2]
    first.offset, second.offset = second.offset, first.offset


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("without a name", lambda tail: tail.footer.types[0].field_names.pop()),
        ("without a name", lambda tail: tail.footer.types[0].ClearField("field_names")),
        ("add up", lambda tail: setattr(tail.footer, "rows", 1)),
        ("beyond the end", lambda tail: setattr(tail.footer.stripes[-1], "offset", 1 << 40)),
        ("beyond the end", lambda tail: setattr(tail.footer.stripes[-1], "data_length", 1 << 20)),
        ("beyond the end", _one_byte_of_the_tail),
        ("before the previous one ends", _swap_stripes),
        ("before the previous one ends", lambda tail: setattr(tail.footer.stripes[0], "offset", 2)),
        (
            "statistics count 4000 rows, its stripes 0",
            _empty,
        ),
        (
            "statistics count 3 rows",
            lambda tail: tail.footer.metadata.add(name="hive.acid.stats", value=b"1,0,2"),
        ),
        (
            "the numbers of stripes and of stripe statistics differ",
            lambda tail: tail.metadata.stripes.add(),
        ),
        (r"fields without a name", lambda tail: tail.footer.types[0].children.append(99)),
        ("type 99, which does not exist", _lost_child),
        ("no types", lambda tail: tail.footer.ClearField("types")),
        ("not a struct", lambda tail: setattr(tail.footer.types[0], "kind", TypeKind.LONG)),
        ("refers to type 0", _first_type(kind=TypeKind.LIST, children=[0])),
        ("refers to type 1", _first_type(kind=TypeKind.LIST, children=[1])),
        ("has 0 child types", _first_type(kind=TypeKind.LIST)),
        ("has 1 child types", _first_type(kind=TypeKind.MAP, children=[2])),
        ("has 1 child types", _first_type(kind=TypeKind.LONG, children=[2])),
        ("union without types", _first_type(kind=TypeKind.UNION)),
        ("has two parents", _shared_child),
        ("has no parent", lambda tail: tail.footer.types.add(kind=TypeKind.LONG)),
        (r"decimal\(39,2\)", _first_type(kind=TypeKind.DECIMAL, precision=39, scale=2)),
        (r"decimal\(3,4\)", _first_type(kind=TypeKind.DECIMAL, precision=3, scale=4)),
        (r"decimal\(38,39\)", _first_type(kind=TypeKind.DECIMAL, scale=39)),
        (
            "compression blocks have 2147483647 bytes",
            lambda tail: setattr(tail.postscript, "compression_block_size", (1 << 31) - 1),
        ),
    ],
)
def test_a_tail_that_contradicts_itself_is_refused(
    tmp_path: Path, reason: str, change: Callable[[OrcTail], object]
) -> None:
    tail = read_tail(FS, written(tmp_path))
    change(tail)
    with pytest.raises(CorruptFileError, match=reason):
        again(tail)


def test_types_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    last = len(tail.types) - 1
    tail.footer.types[last].CopyFrom(pb.Type(kind=TypeKind.LIST, children=[last + 1]))
    for column_id in range(last + 1, last + 2_000):
        tail.footer.types.add(kind=TypeKind.LIST, children=[column_id + 1])
    tail.footer.types.add(kind=TypeKind.LONG)
    with pytest.raises(UnsupportedFileError, match="nest deeper"):
        again(tail)


def test_column_names_with_invalid_utf8_are_refused(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    plain = tail.footer.SerializeToString().replace(b"nested", b"ne\xff\xfeed")
    tail = dataclasses.replace(tail, footer=pb.Footer.FromString(plain))
    with pytest.raises(CorruptFileError):
        again(tail)


def test_empty_content_is_reported_as_too_short() -> None:
    with pytest.raises(CorruptFileError, match="too short"):
        parse_tail("f.orc", b"", 0)


def test_a_decimal_type_without_precision_counts_as_38_digits_with_10_after_the_point(
    tmp_path: Path,
) -> None:
    tail = read_tail(FS, written(tmp_path))
    tail.footer.types[1].CopyFrom(pb.Type(kind=TypeKind.DECIMAL))
    type_ = again(tail).types[1]
    assert (type_.precision, type_.scale) == (38, 10)


def test_types_and_stripes_are_computed_once_per_tail(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    assert tail.types is tail.types
    assert tail.stripes is tail.stripes
    assert tail.types[0].by_name is tail.types[0].by_name


def test_a_field_is_found_by_its_exact_name_or_by_its_lower_case_name(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    tail.footer.types[0].field_names[:] = ["Id", "ID", "name"]
    root = again(tail).types[0]
    assert (root.by_name["Id"], root.by_name["ID"], root.by_name.get("id")) == (1, 2, None)
    assert root.by_lower_name == {"id": 1, "name": 5}


def test_encrypted_columns_are_refused(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    tail.postscript.stripe_statistics_length = 5
    with pytest.raises(UnsupportedFileError, match="encrypted"):
        again(tail)


def test_unknown_footer_fields_are_preserved(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    unknown = b"\xa2\x06\x03abc"  # field 100, three bytes
    footer = pb.Footer.FromString(tail.footer.SerializeToString() + unknown)
    assert footer.SerializeToString().endswith(unknown)
    assert footer.rows == ROWS


def test_a_small_footer_that_expands_to_too_many_types_is_refused() -> None:
    number = pb.Footer.DESCRIPTOR.fields_by_name["types"].number
    footer = compress(bytes([number << 3 | 2, 0]) * 200_000, Compression.ZSTD, 1 << 20)
    postscript = pb.PostScript(
        footer_length=len(footer),
        compression=Compression.ZSTD,
        compression_block_size=1 << 20,
        magic=MAGIC,
    ).SerializeToString()
    data = b"".join((MAGIC, footer, postscript, bytes([len(postscript)])))
    assert len(data) < 1_000
    with pytest.raises(CorruptFileError, match="more values than a file of its length"):
        parse_tail("f.orc", data, len(data))
    with pytest.raises(UnsupportedFileError, match="types"):
        parse_tail("f.orc", data, 1 << 20)


def test_a_tail_with_an_excessive_declared_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.orc"
    postscript = pb.PostScript(footer_length=1 << 40, magic=MAGIC).SerializeToString()
    with path.open("wb") as file:
        file.truncate(1 << 41)  # of which a disk holds nothing
        file.seek(1 << 41)
        file.write(postscript + bytes([len(postscript)]))
    with pytest.raises(CorruptFileError, match="longer than allowed"):
        read_tail(FS, str(path))


def test_a_stripe_footer_with_an_excessive_declared_length_is_refused(tmp_path: Path) -> None:
    tail = read_tail(FS, written(tmp_path))
    tail.footer.stripes[-1].footer_length = 1 << 40
    data = serialize_tail(tail)
    with pytest.raises(CorruptFileError, match="stripe's footer"):
        parse_tail("f.orc", data, 1 << 42)


def test_files_with_the_same_columns_share_their_types_and_others_do_not() -> None:
    def tail_of(rows: int, **columns: pa.DataType) -> OrcTail:
        table = pa.table({name: pa.nulls(rows, type_) for name, type_ in columns.items()})
        sink = pa.BufferOutputStream()
        orc.write_table(table, sink)
        data = sink.getvalue().to_pybytes()
        return parse_tail("f.orc", data, len(data))

    one = tail_of(3, a=pa.int32(), b=pa.string())
    assert tail_of(5000, a=pa.int32(), b=pa.string()).types is one.types
    for other in (
        tail_of(3, a=pa.int64(), b=pa.string()),
        tail_of(3, A=pa.int32(), b=pa.string()),
        tail_of(3, a=pa.int32()),
        tail_of(3, a=pa.int32(), b=pa.struct([("c", pa.string())])),
    ):
        assert other.types != one.types
    assert tail_of(3, a=pa.int32(), b=pa.string()).types is one.types


def test_an_invalid_type_tree_is_refused_in_every_file_that_has_it() -> None:
    sink = pa.BufferOutputStream()
    orc.write_table(pa.table({"a": [1]}), sink)
    data = sink.getvalue().to_pybytes()
    tail = parse_tail("f.orc", data, len(data))
    end = max(stripe.offset + stripe.length for stripe in tail.stripes)
    tail.footer.types[0].children[0] = 0
    again = data[:end] + serialize_tail(tail)
    for path in ("one", "two"):
        with pytest.raises(CorruptFileError, match=f"{path}.*refers to type 0"):
            parse_tail(path, again, len(again))
