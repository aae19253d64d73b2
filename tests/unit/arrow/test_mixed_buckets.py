"""Files with rows of several buckets (HIVE-23763): all readers show the same rows.

Random histories, whose delete events are in the files of their rows' buckets as Hive writes them,
or all in one file. A compaction moves each row to its own bucket, and no reader sees a difference.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_hiveacid.arrow import LIBRARY_LIMITS
from airflow_hiveacid.arrow.search import Search
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.change_range import ChangeRange, ChangeSegment, segments_of
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.ids import BucketId, BucketProperty, WriteId, decode, encode
from airflow_hiveacid.format.snapshot import up_to
from airflow_hiveacid.format.table import Column, TableRef, TransactionalKind
from airflow_hiveacid.format.versions import Guarantee, VersionSpec
from airflow_hiveacid.jobs.maintenance import RestoreSpec
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.reading.table_view import view_of
from airflow_hiveacid.storage.acid.read import AcidFile, buckets, changed_rows, files
from airflow_hiveacid.storage.acid.read.files import FooterFacts
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.stores.listing import list_table
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.arrow.lake import INSERT_ALL, Lake, made
from tests.unit.lake.lakes import T, Warehouse, ids, rows
from tests.unit.storage.orc_tables import B0, B1, event, ids as write_ids, tombstone, write_acid

COLUMNS = (Column(name="id", type="bigint"),)
ROW = pa.struct([("id", pa.int64())])
BUCKETS = [encode(BucketId(number)) for number in range(3)]
SEARCH = Search(reach=None, columns=(), pick=None)

Identity = tuple[int, int, int]
Rows = dict[Identity, int]


class History:
    """A table of writes at random: the rows after each version, and their files."""

    def __init__(self, warehouse: Warehouse, seed: int) -> None:
        self.chance, self.warehouse = random.Random(seed), warehouse
        self.writes = self.chance.randint(3, 7)
        warehouse.create(T, columns=COLUMNS, parameters={ONLY_HIVE_4_READS: "true"})
        self.root = warehouse.root / "s"
        with warehouse.connect() as lake:
            for _ in range(self.writes):
                lake.table(T).append(rows(0))
        for directory in self.root.glob("delta_*"):
            shutil.rmtree(directory)
        self.versions: list[Rows] = [{}]
        for write_id in range(1, self.writes + 1):
            alive = self.versions[-1]
            if alive and self.chance.random() < 0.5:
                dead = self.chance.sample(sorted(alive), self.chance.randint(1, len(alive)))
                self._delete(write_id, sorted(dead))
                self.versions.append({row: alive[row] for row in alive if row not in dead})
            else:
                self.versions.append(alive | self._insert(write_id))

    def _insert(self, write_id: int) -> Rows:
        new = {
            (write_id, int(property_), number): 100 * write_id + 10 * place + number
            for place, property_ in enumerate(BUCKETS)
            for number in range(self.chance.randint(0, 3))
        } or {(write_id, int(BUCKETS[0]), 0): 100 * write_id}
        mixed = self.chance.choice([None, 0, 1, 2])
        files: dict[int, list[Identity]] = {}
        for row in sorted(new):
            files.setdefault(_bucket(row) if mixed is None else mixed, []).append(row)
        for bucket, own in files.items():
            events = [event(w, n, {"id": new[w, b, n]}, bucket=b) for w, b, n in own]
            # With two stripes, the footer has no statistics.
            parts = (
                [events[:1], events[1:]]
                if len(own) > 1 and self.chance.random() < 0.2
                else [events]
            )
            write_acid(self._path("delta", write_id, bucket), *parts, row=ROW)
        return new

    def _delete(self, write_id: int, dead: list[Identity]) -> None:
        together = self.chance.random() < 0.2
        for bucket in {0} if together else {_bucket(row) for row in dead}:
            own = [row for row in dead if together or _bucket(row) == bucket]
            events = [tombstone(w, n, write_id, bucket=b) for w, b, n in own]
            write_acid(self._path("delete_delta", write_id, bucket), events, row=ROW)

    def _path(self, kind: str, write_id: int, bucket: int) -> Path:
        return self.root / f"{kind}_{write_id:07d}_{write_id:07d}_0000" / f"bucket_{bucket:05d}"

    def compact(self, choice: str) -> None:
        with self.warehouse.connect() as lake:
            lake.table(T).compact(choice)

    def seen(self) -> dict[str, list[int]]:
        """The IDs that each reader sees, sorted."""
        client = FakeClient(self.warehouse.server)
        table = client.get_table(TableRef.parse(T))
        snapshot = snapshot_now(client, [table.ref])
        write_ids = snapshot.write_ids(table.ref)
        stored = list(scan(table.location, COLUMNS, write_ids))
        view = view_of(client, table, snapshot)
        with self.warehouse.connect() as lake:
            library, where = ids(lake.table(T)), ids(lake.table(T), "id > -1")
        rows_of = self.versions[-1]
        found = [b for part in SEARCH.find(view, LIBRARY_LIMITS) for b in part.rows.to_pylist()]
        return {
            "stored": sorted(row["id"] for batch in stored for row in batch.to_pylist()),
            "library": library,
            "where": where,
            "search": sorted(
                rows_of.get((r["originalTransaction"], r["bucket"], r["rowId"]), -1) for r in found
            ),
        }

    def changes(self, since: int) -> Rows:
        """The rows of a version, brought to the last one by the changes."""
        client = FakeClient(self.warehouse.server)
        ref = TableRef.parse(T)
        now = snapshot_now(client, [ref]).write_ids(ref)
        part = ChangeRange(since=up_to(now, WriteId(since)), until=now)
        after = dict(self.versions[since])
        segments = segments_of(
            list_table(str(self.root)), now, part, txns=None, kind=TransactionalKind.FULL_ACID
        )
        for is_born, row, value in changed(segments):
            if is_born:
                after[row] = value
            else:
                del after[row]
        return after


def changed(segments: Iterable[ChangeSegment]) -> Iterator[tuple[bool, Identity, int]]:
    """The changes of segments: whether a row was inserted, its identity, and its ID."""
    for segment in segments:
        manner = changed_rows.FeedManner(
            part=segment.part, ends_with=segment.ends_with, is_net=True
        )
        (planned_files,) = buckets.buckets_changed([segment])
        for file in changed_rows.change_files(segment, planned_files):
            for change in changed_rows.changed_in(
                file.data,
                None if file.is_whole else file.stripes_hit(),
                changed_rows.deaths_of(file.deletes, segment.part),
                manner,
                lambda data, stripes: read_events(data, COLUMNS, stripes=stripes),
                is_whole=file.is_whole,
            ):
                for row in change.rows.to_pylist():
                    key = (row["originalTransaction"], row["bucket"], row["rowId"])
                    yield change.is_born, key, row["row"]["id"]


def _bucket(row: Identity) -> int:
    return decode(BucketProperty(row[1])).bucket_id


@pytest.mark.promise("R1")
@pytest.mark.parametrize("seed", range(12))
def test_every_reader_shows_the_same_rows_before_and_after_compactions(
    clock: ManualClock, tmp_path: Path, seed: int
) -> None:
    server = FakeMetastore(MetastoreGeneration.V4, clock, txn_timeout_s=20.0)
    history = History(Warehouse(server, clock, tmp_path), seed)
    live = history.versions[-1]
    expected = dict.fromkeys(("stored", "library", "where", "search"), sorted(live.values()))
    assert history.seen() == expected
    for since, _ in enumerate(history.versions):
        assert history.changes(since) == live
    history.compact("minor")
    assert not list(history.root.glob("base_*"))
    assert (history.seen(), history.changes(0)) == (expected, live)
    history.compact("major")
    assert list(history.root.glob("base_*"))
    assert history.seen() == expected


@pytest.fixture
def lake(server: FakeMetastore, clock: ManualClock, tmp_path: Path) -> Lake:
    """Rows 1 and 2, both in a file of bucket 0; then row 2, which is of bucket 1, was deleted."""
    lake = made(server, clock, tmp_path, columns=COLUMNS)
    lake.insert((0,))
    lake.insert((9,))
    lake.delete("id = 9")
    root = tmp_path / "s"
    for directory in root.glob("del*_*"):
        shutil.rmtree(directory)
    events = [event(1, 0, {"id": 1 + n}, bucket=b) for n, b in enumerate((B0, B1))]
    write_acid(root / "delta_0000001_0000001_0000/bucket_00000", events, row=ROW)
    write_acid(
        root / "delta_0000002_0000002_0000/bucket_00001",
        [event(2, 0, {"id": 3}, bucket=B1)],
        row=ROW,
    )
    write_acid(
        root / "delete_delta_0000003_0000003_0000/bucket_00001", [tombstone(1, 0, 3, B1)], row=ROW
    )
    return lake


@pytest.mark.promise("R1")
def test_a_key_of_a_deleted_row_is_inserted_again(lake: Lake) -> None:
    lake.delete("id = 2")
    assert lake.rows == [(1,), (3,)]
    lake.merge((2,), clauses=[INSERT_ALL])
    assert lake.rows == [(1,), (2,), (3,)]


@pytest.mark.promise("R1")
def test_a_restore_brings_back_a_deleted_row(lake: Lake) -> None:
    version = VersionSpec.of(2, None, None).text()
    lake.run(RestoreSpec(target="default.s", version=version))
    assert lake.rows == [(1,), (2,), (3,)]


@pytest.mark.promise("R1")
def test_an_overwrite_ends_no_row_that_was_deleted_before_the_range(tmp_path: Path) -> None:
    """The file of the row is in another bucket than the file with its delete event."""
    events = [event(1, 0, {"id": 1 + n}, bucket=b) for n, b in enumerate((B0, B1))]
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", events, row=ROW)
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00001", [tombstone(1, 0, 2, B1)], row=ROW)
    write_acid(tmp_path / "base_3/bucket_00000", [event(3, 0, {"id": 3})], row=ROW)
    now = write_ids(3)
    segments = segments_of(
        list_table(str(tmp_path)),
        now,
        ChangeRange(since=up_to(now, WriteId(2)), until=now),
        txns=None,
        kind=TransactionalKind.FULL_ACID,
        kept=Guarantee(floor=WriteId(0)),
    )
    found = [(is_born, value) for is_born, _, value in changed(segments)]
    assert sorted(found) == [(False, 1), (True, 3)]


@pytest.mark.promise("R1")
def test_a_bucket_without_a_file_of_its_name_has_every_delete_file(tmp_path: Path) -> None:
    events = [event(1, 0, {"id": 1 + n}, bucket=b) for n, b in enumerate((B0, B1))]
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", events, row=ROW)
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00000", [tombstone(1, 0, 2, B1)], row=ROW)
    state = resolve(list_table(str(tmp_path)), write_ids(2), None)
    found = buckets.buckets_by_rows(state, write_ids(2))
    assert [bucket.bucket_id for bucket in found] == [0, 1]
    assert all(len(bucket.deletes) == 1 for bucket in found)


# ---- which files a plan takes for a data file ----------------------------------------------------


@pytest.mark.promise("R1", "R2")
@pytest.mark.parametrize("seed", range(60))
def test_a_plan_misses_no_delete_file_that_overlaps_rows_of_its_bucket(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Ranges of write IDs that touch, contain each other, or are unknown; up to nine buckets."""
    chance, count = random.Random(seed), random.Random(seed).choice([2, 3, 9])
    facts = {f"base_1/bucket_{bucket:05d}": some({bucket}, (1, 1)) for bucket in range(count)}
    for number in range(chance.randint(1, 12)):
        low = chance.randint(2, 20)
        high = low + chance.choice([0, 0, 1, 5])
        path = f"delta_{low:07d}_{high:07d}_{number:04d}/bucket_{chance.randrange(count):05d}"
        facts[path] = some(chance.sample(range(count), chance.randint(1, 2)), (low, high))
    for number in range(chance.randint(1, 6)):
        low = chance.randint(1, 20)
        span = (low, min(low + chance.choice([0, 0, 1, 5, 20]), 29))
        events = chance.sample(range(count), chance.choice([0, 1, 1, 2]))
        path = f"delete_delta_{30 + number:07d}_{30 + number:07d}_0000"
        facts[f"{path}/bucket_{chance.randrange(count):05d}"] = some(
            events, chance.choice([span, span, None])
        )
    opened, found = planned(monkeypatch, facts, 40)
    deletes = {d.key: d for bucket in found for d in bucket.deletes if facts[d.key].buckets}
    unsure: set[str] = set()
    for bucket in found:
        for data in bucket.inserts:
            rows = facts[data.key].buckets or frozenset()
            near = {key: d for key, d in deletes.items() if d.may_overlap(data)}
            own = {bucket.bucket_id}
            wanted = {k for k, d in near.items() if rows & (facts[k].buckets or frozenset())}
            assert wanted <= {d.key for d in bucket.deletes_of(data)}
            hit = ((facts[k].buckets or frozenset()) | {d.bucket_id} for k, d in near.items())
            unsure |= {data.key for buckets_hit in hit if not own & buckets_hit}
    assert {key for key in opened if not key.startswith("delete")} == unsure


@pytest.mark.promise("R2")
def test_the_plan_of_a_range_reads_only_footers_of_files_that_may_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = {f"base_2/bucket_{bucket:05d}": some({bucket}, (1, 2)) for bucket in range(3)}
    for write_id, bucket in ((4, 0), (5, 1)):
        facts[f"delta_{write_id}_{write_id}_0000/bucket_{bucket:05d}"] = some(
            {0, 1, 2}, (write_id, write_id)
        )
    for write_id, bucket, span in ((3, 2, (1, 2)), (6, 2, (4, 4)), (8, 2, (7, 7))):
        path = f"delete_delta_{write_id}_{write_id}_0000/bucket_{bucket:05d}"
        facts[path] = some({bucket}, span)
    facts["delta_7_7_0000/bucket_00000"] = some({0, 2}, (7, 7))
    now = write_ids(9)

    def read_for(since: int, until: int) -> tuple[list[str], list[tuple[str, list[str]]]]:
        opened = opened_of(monkeypatch, facts)
        part = ChangeRange(since=up_to(now, WriteId(since)), until=up_to(now, WriteId(until)))
        (segment,) = segments_of(
            listing_of(facts), now, part, txns=None, kind=TransactionalKind.FULL_ACID
        )
        (found,) = buckets.buckets_changed([segment])
        changed = changed_rows.change_files(segment, found)
        return (
            sorted(key for key in opened if not key.startswith("delete")),
            [(c.data.key, [d.top for d in c.deletes]) for c in changed],
        )

    base = [f"base_2/bucket_{bucket:05d}" for bucket in range(3)]
    of_four, of_seven = "delta_4_4_0000/bucket_00000", "delta_7_7_0000/bucket_00000"
    deletes = [f"delete_delta_{write_id}_{write_id}_0000" for write_id in (3, 6, 8)]
    assert read_for(4, 5) == ([], [("delta_5_5_0000/bucket_00001", [])])
    # The rows of a base may be of any write, and its buckets have rows of others in other files.
    changed = [(base[0], deletes[:2]), (of_four, deletes[1:2]), (base[2], deletes[:2])]
    assert read_for(5, 6) == ([*base[:2], of_four], changed)
    assert read_for(6, 7) == ([], [(of_seven, [])])
    changed = [(base[0], deletes), (of_seven, deletes[2:]), (base[2], deletes)]
    assert read_for(6, 8) == ([*base[:2], of_seven], changed)


@pytest.mark.promise("R2")
def test_the_work_of_a_plan_grows_with_the_files_not_with_their_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = {f"base_1/bucket_{bucket:05d}": some({bucket}, (1, 900)) for bucket in range(32)}
    for number, bucket in itertools.product(range(20), range(32)):
        write_id, last = 1000 + number, f"bucket_{bucket:05d}"
        facts[f"delta_{write_id}_{write_id}_0000/{last}"] = some({bucket}, (write_id, write_id))
        span = (1 + (number * 7 + bucket) % 900, 900 + number)
        facts[f"delete_delta_{write_id}_{write_id}_0000/{last}"] = some({bucket}, span)
    compared: list[AcidFile] = []
    may_overlap = AcidFile.may_overlap
    monkeypatch.setattr(
        AcidFile,
        "may_overlap",
        lambda self, other: compared.append(other) or may_overlap(self, other),
    )
    opened, found = planned(monkeypatch, facts, 2000)
    assert len(compared) < len(facts)
    assert sum(len(bucket.inserts) for bucket in found) == 32 * 21
    assert {key for key in opened if not key.startswith("delete")} == {
        key for key in facts if key.startswith("base")
    }


def some(numbers: Iterable[int], span: tuple[int, int] | None) -> FooterFacts:
    """The footer of a file with rows, or events, of these buckets and write IDs."""
    return FooterFacts(
        is_acid=True,
        rows=9,
        buckets=frozenset(map(BucketId, numbers)),
        write_ids=None if span is None else (WriteId(span[0]), WriteId(span[1])),
    )


def planned(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, FooterFacts], high: int
) -> tuple[list[str], tuple[buckets.BucketFiles, ...]]:
    """The files whose footers a plan reads, and the plan, for files with these footers."""
    opened = opened_of(monkeypatch, facts)
    return opened, buckets.bucket_files(resolve(listing_of(facts), write_ids(high), None))


def listing_of(facts: dict[str, FooterFacts]) -> Listing:
    return Listing(
        location="file:///t", files=tuple(FileEntry(path=path, size_bytes=9) for path in facts)
    )


def opened_of(monkeypatch: pytest.MonkeyPatch, facts: dict[str, FooterFacts]) -> list[str]:
    """The files whose footers are read from now on; each file has these facts."""
    opened: list[str] = []

    def read(_fs: object, path: str, _length: int) -> FooterFacts:
        opened.append(path.removeprefix("/t/"))
        return facts[opened[-1]]

    monkeypatch.setattr(files, "footer_facts", read)
    return opened
