from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    VersionGoneError,
    VersionNotSettledError,
    VersionUnknownError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import (
    Guarantee,
    VersionSpec,
    as_of_number,
    as_of_set,
    floor_of,
    oldest_readable,
    only_of,
    state_as_of,
    without_aborted,
)
from tests.support.cases import named_cases_of
from tests.unit.format.listings import ids, listing, texts

CASES = Path(__file__).parent / "cases"
FULL, INSERT_ONLY = TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY


def now(text: str = "d.t:9:9223372036854775807::") -> ValidWriteIdList:
    return ValidWriteIdList.parse(text)


def versions_of(case: str) -> Iterator[str]:
    """The directories and original files of each version of a case, or why it is gone."""
    given = dict(line.partition(" ")[::2] for line in case.splitlines())
    files = listing(given["read"], compacted=given.get("compacted", "").split())
    kind, ids_now = TransactionalKind(given.get("kind", "full_acid")), ids(given["at"])
    kept = None
    if "kept" in given:
        floor, *evidence = given["kept"].split()
        kept = Guarantee(floor=WriteId(int(floor)), evidence=frozenset(evidence))
    for number in map(WriteId, range(1, ids_now.high_watermark + 1)):
        then = as_of_number(ids_now, number)
        try:
            state = state_as_of(files, now=ids_now, then=then, txns=None, kind=kind, kept=kept)
        except VersionGoneError as error:
            yield f"{number}: since {error.oldest}, because {error.why}"
        else:
            yield f"{number}: {' '.join([*texts(state.live), *texts(state.originals)])}".rstrip()


# ---- what is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["version 12", "timestamp 2026-11-19T02:00:00+00:00", "tag a b", "now"]
)
def test_a_version_is_parsed_and_formatted_unchanged(text: str) -> None:
    assert VersionSpec.parse(text).text() == text


def test_version_numbers_and_timestamps_can_be_strings() -> None:
    assert VersionSpec.of(version="12") == VersionSpec(number=WriteId(12))
    at = datetime(2026, 11, 19, 2, tzinfo=UTC)
    assert VersionSpec.of(timestamp="2026-11-19T02:00:00Z") == VersionSpec(timestamp=at)


@pytest.mark.parametrize(
    "given",
    [
        {"version": 1, "tag": "a"},
        {"version": 1, "timestamp": "2026-11-19T02:00:00Z"},
        {"version": True},
        {"version": "-1"},
        {"version": "1.5"},
        {"timestamp": "2026-11-19T02:00:00"},
        {"timestamp": "yesterday"},
        {"tag": ""},
        {"tag": " a"},
        {"tag": "a\nb"},
    ],
)
def test_ambiguous_or_invalid_version_arguments_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        VersionSpec.of(**given)  # type: ignore[arg-type]


def test_a_text_that_is_not_a_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="expected 'version N'"):
        VersionSpec.parse("branch main")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "version 0"),
        (" 12 ", "version 12"),
        ("version 12", "version 12"),
        ("2026-11-19T02:00:00+01:00", "timestamp 2026-11-19T02:00:00+01:00"),
        (datetime(2026, 11, 19, tzinfo=UTC), "timestamp 2026-11-19T00:00:00+00:00"),
        ("tag closing 10", "tag closing 10"),
        (VersionSpec(tag="closing"), "tag closing"),
    ],
)
def test_a_single_value_can_be_a_version_number_a_timestamp_or_a_tag(
    value: object, text: str
) -> None:
    assert VersionSpec.meant_by(value).text() == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        True,
        -1,
        "-1",
        pytest.param(10**5000, id="long"),
        "9" * 5000,
        "now",
        "yesterday",
        "2026-11-19T02:00:00",
        "",
        "tag ",
        1.5,
        VersionSpec(),
    ],
)
def test_a_single_value_that_is_not_a_version_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError):
        VersionSpec.meant_by(value)  # type: ignore[arg-type]


# ---- lists ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, -3, 10])
def test_a_version_outside_the_tables_history_is_refused(number: int) -> None:
    with pytest.raises(VersionUnknownError, match=f"version {number}"):
        as_of_number(now(), WriteId(number))


def test_a_version_above_an_open_write_is_not_settled() -> None:
    write_ids = now("d.t:9:4:4,6:2")
    assert as_of_number(write_ids, WriteId(3)).text() == "d.t:3:9223372036854775807::2"
    for number in (4, 5, 9):
        with pytest.raises(VersionNotSettledError, match="write ID 4 is still open") as caught:
            as_of_number(write_ids, WriteId(number))
        assert caught.value.retryable
        assert (caught.value.write_id, caught.value.version) == (4, number)


def test_there_is_no_version_before_the_first_write_to_request_instead() -> None:
    with pytest.raises(VersionNotSettledError, match=r"when that write has ended$"):
        as_of_number(now("d.t:9:1:1"), WriteId(2))


def test_the_minimum_open_write_id_counts_as_open_even_if_it_is_not_listed() -> None:
    with pytest.raises(VersionNotSettledError):
        as_of_number(now("d.t:9:3::"), WriteId(5))


def test_a_snapshot_of_chosen_writes_hides_all_other_and_aborted_writes() -> None:
    write_ids = now("d.t:9:7:7:3")
    assert as_of_set(write_ids, {WriteId(5), WriteId(9)}).text() == "d.t:8:5:5,7:3"
    assert as_of_set(write_ids, {WriteId(w) for w in (1, 2, 4, 5, 6, 8, 9)}).high_watermark == 0


def test_writes_noted_as_aborted_are_hidden_after_the_metastore_forgot_them() -> None:
    assert without_aborted(now(), [WriteId(4), WriteId(12)]).text().endswith("::4")


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "expected"), named_cases_of(CASES / "versions.txt"))
def test_the_files_of_each_version_are_read_or_the_version_is_gone(
    case: str, expected: str
) -> None:
    assert list(versions_of(case)) == expected.splitlines()


def test_original_files_of_a_kept_version_are_read_although_a_base_exists() -> None:
    found = listing("000000_0 delta_1_1_0 base_1 delta_2_2_0", compacted=["base_1"])
    then = as_of_set(now(), {WriteId(w) for w in range(1, 10)})
    kept = Guarantee(floor=WriteId(0))
    state = state_as_of(found, now=now(), then=then, txns=None, kind=FULL, kept=kept)
    assert [f.path for f in state.originals] == ["000000_0"]


def test_keeping_a_table_begins_with_its_oldest_live_version() -> None:
    found = listing("base_3 delta_4_6 delta_7_7_0")
    assert floor_of(resolve(found, now(), None), FULL) == Guarantee(
        floor=WriteId(3), evidence=frozenset({"base_3", "delta_4_6", "delta_7_7_0"})
    )
    assert floor_of(resolve(found, now(), None, INSERT_ONLY), INSERT_ONLY).floor == 6


def test_a_table_without_a_base_can_be_read_from_its_first_version_on() -> None:
    state = resolve(listing("000000_0 delta_1_1_0 delta_2_2_0"), now(), None)
    assert oldest_readable(state, None, FULL) == 1


def test_a_listing_can_be_limited_to_some_directories_and_files() -> None:
    found = only_of(listing("base_3 delta_4_4_0 000000_0"), {"delta_4_4_0", "000000_0"})
    assert [f.path for f in found.files] == ["delta_4_4_0/bucket_00000", "000000_0"]
