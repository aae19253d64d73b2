"""Text of a length, and text that is no UTF-8."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_hiveacid.format.types import DecimalType, PrimitiveType, VarcharType
from airflow_hiveacid.storage.values.limits import cut, is_utf8, padded, texts, unpadded
from airflow_hiveacid.storage.values.promotion import fit_length, promote

RAW = pa.array([b"\xff12  ", None, "äöü".encode(), b"12"], pa.binary()).view(pa.string())


def raw(array: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = array.view(pa.binary()).to_pylist()
    return values


def test_padding_is_added_and_removed_even_with_invalid_utf8() -> None:
    assert raw(unpadded(RAW)) == [b"\xff12", None, "äöü".encode(), b"12"]
    assert raw(padded(unpadded(RAW), 4)) == [b"\xff12 ", None, "äöü ".encode(), b"12  "]
    assert raw(unpadded(padded(unpadded(RAW), 4))) == raw(unpadded(RAW))


def test_only_blanks_are_removed_as_padding() -> None:
    assert unpadded(pa.array(["a\t ", "a\u00a0 ", " a"])).to_pylist() == ["a\t", "a\u00a0", " a"]


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (2, [b"\xff1", None, "äö".encode(), b"12"]),
        (5, [b"\xff12  ", None, "äöü".encode(), b"12"]),
    ],
)
def test_strings_are_truncated_between_characters_even_with_invalid_utf8(
    length: int, expected: list[bytes | None]
) -> None:
    assert raw(cut(RAW, length)) == expected
    assert raw(fit_length(RAW, VarcharType(length=length))) == expected


def test_invalid_utf8_is_detected_and_shown_as_replacement_characters() -> None:
    assert not is_utf8(RAW)
    assert is_utf8(RAW.slice(1))
    assert texts(RAW) == ["\ufffd12  ", None, "äöü", "12"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (PrimitiveType("int"), [None, None, None, 12]),
        (PrimitiveType("double"), [None, None, None, 12.0]),
        (DecimalType(precision=4, scale=0), [None, None, None, 12]),
        (PrimitiveType("boolean"), [None, None, None, True]),
    ],
)
def test_strings_with_invalid_utf8_are_null_as_numbers(
    wanted: PrimitiveType | DecimalType, expected: list[object]
) -> None:
    found = promote(RAW, wanted)
    assert found is not None
    assert found.to_pylist() == expected
