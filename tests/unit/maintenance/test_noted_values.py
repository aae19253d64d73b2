"""Values of rows in a table's notes: the proof of erasure names them, whatever note holds them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import Reset, Tag, TaggedRoot
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.maintenance import CompactSpec
from airflow_hiveacid.maintenance import health
from airflow_hiveacid.maintenance.compaction_planner import plan_tables
from airflow_hiveacid.maintenance.stored_files import NotedValues, noted_values, stored_files
from airflow_hiveacid.storage.stores import job_ledger
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from tests.contract.fake_client import FakeClient
from tests.unit.arrow.lake import Lake, made
from tests.unit.lake.lakes import Warehouse

if TYPE_CHECKING:
    from tests.contract.fake_metastore import FakeMetastore
    from tests.contract.manual_clock import ManualClock

NAME = (Column(name="name", type="string"),)
ANN = PartitionName(("name",), ("Ann-Lee",))
TEXT = "name=Ann Lee%2F1"


@pytest.fixture
def lake(server: FakeMetastore, clock: ManualClock, tmp_path: Path) -> Lake:
    columns = (Column(name="id", type="bigint"),)
    return made(server, clock, tmp_path, columns=columns, partition_columns=NAME)


def hidden(table: TableInfo) -> Path:
    return Path(table.location.removeprefix("file:"), "_hiveacid")


def noted(table: TableInfo) -> NotedValues:
    return noted_values(table, stored_files(table, (), ()))


def held(content: bytes) -> bytes:
    """The text of a note; a roll is compressed."""
    return content if content.startswith(b"{") else zlib.decompress(content)


def test_each_note_with_a_name_is_sufficient_to_report_the_name(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FEW", 0)
    monkeypatch.setattr(job_ledger, "_ROLL_AT", 4)
    for number in range(5):
        lake.insert((number, ANN.values[0]))
    plan_tables(lake.client, CompactSpec(tables=("default.*",), delta_count=3))
    past = VersionNotes.of(lake.table)
    root = TaggedRoot(partition=ANN, location="file:/elsewhere", names=frozenset())
    past.note_tag(Tag(name="t", table_id="1", write_ids="s:1::", made_s=1.0, roots=(root,)))
    past.note_resets(
        [Reset(partition=ANN, write_id=WriteId(1), lowest=WriteId(1), highest=WriteId(1))]
    )
    contents = {file: file.read_bytes() for file in hidden(lake.table).iterdir()}
    with_name = {f: content for f, content in contents.items() if b"Ann-Lee" in held(content)}
    kinds = {file.name.split("_")[1] for file in with_name}
    assert {"commit", "planned", "reset", "rolled", "tag"} <= kinds
    for file in contents:
        file.unlink()
    assert noted(lake.table).names == frozenset()
    for file, content in with_name.items():
        file.write_bytes(content)
        assert noted(lake.table) == NotedValues(names=frozenset({str(ANN)}), not_searched={}), file
        file.unlink()


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"file:/My tables/s/{TEXT}/delta_0000001_0000001_0000",
        "NAME=Ann Lee%2f1/base_7",
        f"base_7/{TEXT}",
    ],
)
def test_a_name_is_found_in_a_note_of_a_kind_that_this_release_does_not_know(
    lake: Lake, text: str
) -> None:
    hidden(lake.table).mkdir()
    note = hidden(lake.table) / "_next_1.json"
    for body in ({"places": [{"a": text}]}, {text: 1}, {"result": json.dumps({"a": [text]})}):
        note.write_text(json.dumps(body))
        assert noted(lake.table).names == {TEXT}


def test_a_name_inside_a_sentence_ends_with_its_word(lake: Lake) -> None:
    hidden(lake.table).mkdir()
    why = "cannot compact default.s (name=Ann): name=Bob/delta_1 is damaged, a=b"
    (hidden(lake.table) / "_failures_1.json").write_text(json.dumps({"why": why}))
    assert noted(lake.table).names == {"name=Ann", "name=Bob"}


def test_names_of_all_partition_columns_in_their_order_are_found(
    server: FakeMetastore, clock: ManualClock, tmp_path: Path
) -> None:
    columns = tuple(Column(name=name, type="string") for name in ("a", "b"))
    table = made(server, clock, tmp_path, partition_columns=columns).table
    hidden(table).mkdir()
    texts = ["a=1/b=2", "x/a=3/b=4/base_1", "b=5/a=6", "a=7", "a=8/c=9"]
    (hidden(table) / "_next_1.json").write_text(json.dumps({"texts": texts}))
    assert noted(table).names == {"a=1/b=2", "a=3/b=4"}


@pytest.mark.parametrize(
    "content",
    [b"name=Ann", b"\xff\xfe", b"[" * 200_000, zlib.compress(b"no roll"), b'"a"name=Ann'],
    ids=["text", "bytes", "deep", "compressed", "more"],
)
def test_a_note_that_cannot_be_read_is_named(lake: Lake, content: bytes) -> None:
    hidden(lake.table).mkdir()
    (hidden(lake.table) / "_next_1.json").write_bytes(content)
    (hidden(lake.table) / "_empty").write_bytes(b"")
    found = noted(lake.table)
    assert found.names == frozenset()
    assert list(found.not_searched) == [f"{lake.table.location}/_hiveacid/_next_1.json"]
    assert "Ann" not in str(found.not_searched)


def test_the_notes_of_a_feed_in_another_location_are_searched(lake: Lake, tmp_path: Path) -> None:
    feed = tmp_path / "feed" / "changes_0000003"
    feed.mkdir(parents=True)
    (feed / "_changes.json").write_text(json.dumps({"births": {TEXT: 5}}))
    files = stored_files(lake.table, (), [f"file:{tmp_path}/feed"])
    assert noted_values(lake.table, files).names == {TEXT}


@pytest.mark.parametrize("rolls", [False, True])
def test_offsets_of_a_stream_are_named_without_their_values(
    server: FakeMetastore,
    clock: ManualClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    rolls: bool,
) -> None:
    warehouse = Warehouse(server, clock, tmp_path)
    warehouse.create(partition_columns=(Column(name="owner", type="string"),))
    with warehouse.connect() as lake:
        writer = lake.stream_writer("default.s", stream="clicks")
        writer.write(pa.table({"id": [1], "owner": ["Bob"]}), {"last": "Zoe"})
        if rolls:
            monkeypatch.setattr(job_ledger, "_ROLL_AT", 1)
            lake.table("default.s").append(pa.table({"id": [2], "owner": ["Bob"]}))
    found = noted(FakeClient(server).get_table(TableRef("default", "s")))
    assert found.names == {"owner=Bob"}
    (why,) = set(found.not_searched.values())
    assert why == "it stores offsets of stream/clicks, which may be values of rows"
    assert all("_rolled_" in uri for uri in found.not_searched) is rolls
