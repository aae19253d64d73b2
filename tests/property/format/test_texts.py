"""What is printed reads back, and what reads prints canonically."""

from __future__ import annotations

from hypothesis import given, strategies as st

from airflow_hiveacid.format import names, types
from airflow_hiveacid.format.ids import (
    LONG_MAX,
    BucketCodec,
    BucketId,
    StatementId,
    TxnId,
    WriteId,
    decode,
    encode,
)
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    NULL_PARTITION,
    PartitionName,
    TableRef,
    escape_partition_value,
    unescape_partition_value,
)

longs = st.integers(0, LONG_MAX)
visibilities = st.none() | st.integers(1, LONG_MAX).map(TxnId)
bases = st.builds(
    names.BaseName,
    write_id=(longs | st.just(names.MINIMUM_BASE)).map(WriteId),
    visibility_txn_id=visibilities,
)


@st.composite
def delta_names(draw: st.DrawFn) -> names.DeltaName:
    low, high = sorted((draw(longs), draw(longs)))
    return names.DeltaName(
        low=WriteId(low),
        high=WriteId(high),
        statement_id=draw(st.none() | st.integers(0, 9999).map(StatementId)),
        visibility_txn_id=draw(visibilities),
        is_delete=draw(st.booleans()),
    )


@given(bases | delta_names())
def test_directory_names_round_trip(name: names.BaseName | names.DeltaName) -> None:
    assert names.parse_directory_name(str(name)) == name


@given(st.from_regex(r"(base|delta|delete_delta)(_v?[0-9]{1,20}){1,4}", fullmatch=True) | st.text())
def test_a_parsed_directory_name_round_trips_through_its_text(text: str) -> None:
    name = names.parse_directory_name(text)
    if name is not None:
        assert names.parse_directory_name(str(name)) == name


bucket_files = st.builds(
    names.BucketFileName,
    bucket_id=st.integers(0, 99_999).map(BucketId),
    attempt_id=st.none() | st.integers(0, 99),
)
original_files = st.builds(
    names.OriginalFileName,
    bucket_id=st.integers(0, 999_999).map(BucketId),
    copy=st.none() | st.integers(0, 999),
    attempt_id=st.integers(0, 9999),
)


@given(bucket_files | original_files)
def test_file_names_round_trip(name: names.BucketFileName | names.OriginalFileName) -> None:
    assert names.parse_file_name(str(name)) == name


@given(st.integers(0, 4095), st.integers(0, 4095))
def test_the_bucket_codec_round_trips(bucket: int, statement: int) -> None:
    packed = encode(BucketId(bucket), StatementId(statement))
    assert 0 < packed < 1 << 31
    identity = decode(packed)
    assert identity.codec_version is BucketCodec.V1
    assert (identity.bucket_id, identity.statement_id) == (bucket, statement)


@given(st.integers(0, 4095), st.integers(0, 4095), st.integers(0, 4095), st.integers(0, 4095))
def test_bucket_properties_sort_by_bucket_then_statement(a: int, b: int, c: int, d: int) -> None:
    first = encode(BucketId(a), StatementId(b))
    second = encode(BucketId(c), StatementId(d))
    assert (first < second) == ((a, b) < (c, d))


exceptions = st.dictionaries(st.integers(1, 60), st.booleans(), max_size=20)


@given(
    st.integers(0, 60),
    exceptions,
    st.none() | st.integers(1, 60),
    st.sampled_from([None, TableRef("db", "t")]),
)
def test_write_id_lists_round_trip(
    high: int, marks: dict[int, bool], minimum: int | None, table: TableRef | None
) -> None:
    write_ids = ValidWriteIdList(
        table=table,
        high_watermark=WriteId(high),
        open=tuple(WriteId(i) for i, aborted in marks.items() if not aborted),
        aborted=tuple(WriteId(i) for i, aborted in marks.items() if aborted),
        min_open_write_id=None if minimum is None else WriteId(minimum),
    )
    assert ValidWriteIdList.parse(write_ids.text()) == write_ids
    assert ValidWriteIdList.parse(write_ids.text().rstrip(":")) == write_ids


def ranges(ids: list[int]) -> str:
    """Hive 4's text: a run of ids as a-b."""
    runs: list[list[int]] = []
    for i in sorted(ids):
        if runs and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)


@given(st.integers(0, 60), exceptions)
def test_transaction_lists_are_parsed_alike_from_plain_ids_and_from_ranges(
    high: int, marks: dict[int, bool]
) -> None:
    opened = [i for i, aborted in marks.items() if not aborted]
    aborted = [i for i, aborted in marks.items() if aborted]
    txns = ValidTxnList(
        high_watermark=TxnId(high),
        open=tuple(map(TxnId, opened)),
        aborted=tuple(map(TxnId, aborted)),
    )
    minimum = min(opened, default=LONG_MAX)
    assert ValidTxnList.parse(txns.text()) == txns
    assert ValidTxnList.parse(f"{high}:{minimum}:{ranges(opened)}:{ranges(aborted)}") == txns


hive_types: st.SearchStrategy[types.HiveType] = st.recursive(
    st.sampled_from(sorted(types.PRIMITIVE_NAMES)).map(types.PrimitiveType)
    | st.integers(1, 38).flatmap(
        lambda p: st.builds(types.DecimalType, st.just(p), st.integers(0, p))
    )
    | st.builds(types.CharType, st.integers(1, 255))
    | st.builds(types.VarcharType, st.integers(1, 65535)),
    lambda inner: (
        st.builds(types.ArrayType, inner)
        | st.builds(types.MapType, inner, inner)
        | st.builds(types.UnionType, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(
            types.StructType,
            st.lists(
                st.tuples(st.from_regex("[a-z_][a-z0-9_]{0,5}", fullmatch=True), inner),
                min_size=1,
                max_size=4,
                unique_by=lambda field: field[0],
            ).map(tuple),
        )
    ),
    max_leaves=12,
)


@given(hive_types)
def test_type_names_round_trip_in_upper_and_lower_case(parsed: types.HiveType) -> None:
    assert types.parse_type(str(parsed)) == parsed
    assert str(types.parse_type(str(parsed).upper())).lower() == str(parsed)


values = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))


@given(values)
def test_partition_values_round_trip(value: str) -> None:
    escaped = escape_partition_value(value)
    assert unescape_partition_value(escaped) == value
    assert "/" not in escaped
    assert "=" not in escaped


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"), st.none() | values.filter(lambda v: v != NULL_PARTITION)
        ),
        min_size=1,
    )
)
def test_partition_names_round_trip(parts: list[tuple[str, str | None]]) -> None:
    name = PartitionName(tuple(c for c, _ in parts), tuple(v for _, v in parts))
    assert PartitionName.parse(str(name)) == name
