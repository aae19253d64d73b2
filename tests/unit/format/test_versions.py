from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.directories import FileEntry, Listing
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

FULL, INSERT_ONLY = TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY


def listing(*paths: str, compacted: tuple[str, ...] = ()) -> Listing:
    files = tuple(
        FileEntry(path=p if "0_0" in p else f"{p}/bucket_00000", size_bytes=1) for p in paths
    )
    return Listing(location="/t", files=files, metadata=dict.fromkeys(compacted, "compacted"))


def now(text: str = "d.t:9:9223372036854775807::") -> ValidWriteIdList:
    return ValidWriteIdList.parse(text)


def names(
    found: Listing,
    number: int,
    *,
    kind: TransactionalKind = FULL,
    kept: Guarantee | None = None,
    ids: ValidWriteIdList | None = None,
) -> list[str]:
    ids = ids or now()
    then = as_of_number(ids, WriteId(number))
    state = state_as_of(found, now=ids, then=then, txns=None, kind=kind, kept=kept)
    return [*(d.text for d in state.live), *(f.path for f in state.originals)]


def delta(low: int, high: int | None = None, *, delete: bool = False) -> str:
    text = f"delta_{low:07d}_{high or low:07d}" + ("" if high else "_0000")
    return f"delete_{text}" if delete else text


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
    ids = now("d.t:9:4:4,6:2")
    assert as_of_number(ids, WriteId(3)).text() == "d.t:3:9223372036854775807::2"
    for number in (4, 5, 9):
        with pytest.raises(VersionNotSettledError, match="write ID 4 is still open") as caught:
            as_of_number(ids, WriteId(number))
        assert caught.value.retryable
        assert (caught.value.write_id, caught.value.version) == (4, number)


def test_there_is_no_version_before_the_first_write_to_request_instead() -> None:
    with pytest.raises(VersionNotSettledError, match=r"when that write has ended$"):
        as_of_number(now("d.t:9:1:1"), WriteId(2))


def test_the_minimum_open_write_id_counts_as_open_even_if_it_is_not_listed() -> None:
    with pytest.raises(VersionNotSettledError):
        as_of_number(now("d.t:9:3::"), WriteId(5))


def test_a_snapshot_of_chosen_writes_hides_all_other_and_aborted_writes() -> None:
    ids = now("d.t:9:7:7:3")
    assert as_of_set(ids, {WriteId(5), WriteId(9)}).text() == "d.t:8:5:5,7:3"
    assert as_of_set(ids, {WriteId(w) for w in (1, 2, 4, 5, 6, 8, 9)}).high_watermark == 0


def test_writes_noted_as_aborted_are_hidden_after_the_metastore_forgot_them() -> None:
    assert without_aborted(now(), [WriteId(4), WriteId(12)]).text().endswith("::4")


# ---- what is live now ----------------------------------------------------------------------------


def test_live_directories_contain_every_version_since_their_base() -> None:
    found = listing(
        "base_0000003", delta(4), delta(5, delete=True), delta(6), compacted=("base_0000003",)
    )
    assert names(found, 3) == ["base_0000003"]
    assert names(found, 5) == ["base_0000003", delta(4), delta(5, delete=True)]


def test_a_compacted_delta_of_a_full_acid_table_can_be_read_partly() -> None:
    assert names(listing("base_0000003", delta(4, 6), delta(7)), 5) == ["base_0000003", delta(4, 6)]


@pytest.mark.parametrize("compacted", [("base_0000006",), ()])
def test_a_version_below_the_live_base_is_refused_even_if_old_files_exist(
    compacted: tuple[str, ...],
) -> None:
    found = listing(
        "base_0000003", delta(4), delta(5), delta(6), "base_0000006", compacted=compacted
    )
    with pytest.raises(VersionGoneError, match="oldest readable version is 6"):
        names(found, 5)
    assert names(found, 6) == ["base_0000006"]


def test_a_version_before_an_overwrite_is_refused_if_its_files_are_gone() -> None:
    with pytest.raises(VersionGoneError, match="oldest readable version is 6") as caught:
        names(listing("base_0000006"), 5)
    assert not caught.value.retryable


def test_a_compacted_delta_of_an_insert_only_table_cannot_be_read_partly() -> None:
    found = listing("base_0000003", delta(4, 6), delta(7))
    assert names(found, 6, kind=INSERT_ONLY) == ["base_0000003", delta(4, 6)]
    for number in (4, 5):
        with pytest.raises(VersionGoneError, match="oldest readable version is 3"):
            names(found, number, kind=INSERT_ONLY)


def test_a_compacted_delta_with_aborted_writes_inside_is_read_completely() -> None:
    ids = now("d.t:9:9223372036854775807::5")
    found = listing(delta(4, 6), delta(7))
    assert names(found, 6, kind=INSERT_ONLY, ids=ids) == [delta(4, 6)]
    assert names(found, 8, kind=INSERT_ONLY, ids=ids) == [delta(4, 6), delta(7)]


def test_a_table_without_a_base_can_be_read_at_every_version() -> None:
    found = listing("000000_0", delta(1), delta(2))
    assert names(found, 1) == [delta(1), "000000_0"]
    assert oldest_readable(resolve(found, now(), None), None, FULL) == 1


# ---- what is promised ----------------------------------------------------------------------------


def test_a_kept_version_is_read_although_a_newer_base_exists() -> None:
    found = listing("base_0000003", delta(4), delta(5), "base_0000005", compacted=("base_0000005",))
    kept = Guarantee(floor=WriteId(3))
    assert names(found, 4, kept=kept) == ["base_0000003", delta(4)]
    with pytest.raises(VersionGoneError, match="oldest readable version is 3"):
        names(found, 2, kept=kept)


def test_a_version_kept_from_the_first_write_on_is_read_without_a_base() -> None:
    found = listing(delta(1), delta(2), "base_0000002", compacted=("base_0000002",))
    assert names(found, 1, kept=Guarantee(floor=WriteId(0))) == [delta(1)]


def test_original_files_of_a_kept_version_are_read_although_a_base_exists() -> None:
    found = listing("000000_0", delta(1), "base_0000001", delta(2), compacted=("base_0000001",))
    # version 1 is the base itself; nothing below is a number
    assert names(found, 1) == ["base_0000001"]
    ids = as_of_set(now(), {WriteId(w) for w in range(1, 10)})
    state = state_as_of(
        found, now=now(), then=ids, txns=None, kind=FULL, kept=Guarantee(floor=WriteId(0))
    )
    assert [f.path for f in state.originals] == ["000000_0"]


def test_a_kept_insert_only_version_is_read_from_the_deltas_before_compaction() -> None:
    found = listing(delta(4), delta(5), delta(6), delta(4, 6))
    assert names(found, 5, kind=INSERT_ONLY, kept=Guarantee(floor=WriteId(0))) == [
        delta(4),
        delta(5),
    ]


def test_part_of_a_streaming_delta_of_a_kept_insert_only_table_is_refused() -> None:
    with pytest.raises(VersionGoneError, match="cannot be told"):
        names(listing(delta(4, 6)), 5, kind=INSERT_ONLY, kept=Guarantee(floor=WriteId(0)))


def test_keeping_a_table_begins_with_its_oldest_live_version() -> None:
    found = listing("base_0000003", delta(4, 6), delta(7))
    assert floor_of(resolve(found, now(), None), FULL) == Guarantee(
        floor=WriteId(3), evidence=frozenset({"base_0000003", delta(4, 6), delta(7)})
    )
    assert floor_of(resolve(found, now(), None, INSERT_ONLY), INSERT_ONLY).floor == 6


def test_a_kept_version_is_refused_if_one_of_its_recorded_directories_is_missing() -> None:
    kept = Guarantee(floor=WriteId(3), evidence=frozenset({"base_0000003", delta(4)}))
    full = listing("base_0000003", delta(4), delta(5), "base_0000005")
    assert names(full, 4, kept=kept) == ["base_0000003", delta(4)]
    for gone in ("base_0000003", delta(4)):
        left = listing(*({"base_0000003", delta(4), delta(5), "base_0000005"} - {gone}))
        with pytest.raises(VersionGoneError, match="oldest readable version is 5"):
            names(left, 4, kept=kept)


def test_a_full_acid_version_is_readable_if_a_wider_delta_contains_a_cleaned_one() -> None:
    kept = Guarantee(floor=WriteId(3), evidence=frozenset({"base_0000003", delta(4)}))
    left = listing("base_0000003", delta(4, 5), "base_0000005", compacted=("base_0000005",))
    assert names(left, 4, kept=kept) == ["base_0000003", delta(4, 5)]
    with pytest.raises(VersionGoneError):
        names(left, 4, kind=INSERT_ONLY, kept=kept)


def test_a_listing_can_be_limited_to_some_directories_and_files() -> None:
    found = only_of(listing("base_0000003", delta(4), "000000_0"), {delta(4), "000000_0"})
    assert [f.path for f in found.files] == [f"{delta(4)}/bucket_00000", "000000_0"]
