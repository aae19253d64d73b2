"""How the files that Spark wrote are joined: by size, partition by partition."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs as pafs, orc

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, StatementId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.spark.writing import flat_files
from airflow_hiveacid.storage.acid.write.flat_copy import FlatPart
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.writing.event_files import WritePlan, writer_options
from tests.support.tables import table_of

MB = 1 << 20


def flat(number: int, size: int, group: int | None = None) -> flat_files.FlatFile:
    return flat_files.FlatFile(uri=f"part-{number:05d}", group=group, size_bytes=size)


def made_of(copies: list[flat_files.BucketCopy]) -> list[tuple[int, list[int]]]:
    return [(c.bucket, [int(part.uri[5:]) for part in c.sources]) for c in copies]


def plan_at(path: Path, *, partitioned: bool) -> WritePlan:
    by = "day string" if partitioned else ""
    table = table_of("v int", by=by, location=f"file:{path}")
    delta = DeltaName(low=WriteId(7), high=WriteId(7), statement_id=StatementId(0), is_delete=True)
    return WritePlan(
        table=table,
        write_id=WriteId(7),
        statement_id=StatementId(0),
        token="token",
        insert_directory=BaseName(write_id=WriteId(7)),
        delete_directory=delta,
        options=writer_options(table, MetastoreGeneration.V4, is_base=True),
        given=(),
    )


def write(path: Path, values: list[int], key: str | None = None) -> None:
    columns = {"c0": pa.array(values, pa.int32())}
    if key is not None:
        columns["key"] = pa.array([key] * len(values))
    path.parent.mkdir(parents=True, exist_ok=True)
    orc.write_table(pa.table(columns), str(path), compression="zstd")


@pytest.mark.parametrize(
    ("location", "provider", "is_safe"),
    [
        ("hdfs://lake/w/t", "ConfiguredFailoverProxyProvider", True),
        ("hdfs://lake/w/t", "ObserverReadProxyProvider", False),
        ("viewfs://all/w/t", "RouterObserverReadConfiguredFailoverProxyProvider", False),
        ("file:/w/t", "ObserverReadProxyProvider", True),
    ],
)
def test_spark_commits_no_flat_files_if_an_observer_name_node_may_list_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, location: str, provider: str, is_safe: bool
) -> None:
    names = f"org.apache.hadoop.hdfs.server.namenode.ha.{provider}"
    given = {"dfs.client.failover.proxy.provider.lake": names}
    monkeypatch.setenv(locations.hadoop_settings.VARIABLE, json.dumps(given))
    monkeypatch.setattr(locations, "_hadoop", lambda *_: pafs.LocalFileSystem())
    plan = plan_at(tmp_path, partitioned=False)
    table = dataclasses.replace(plan.table, location=location)
    assert flat_files.can_write_flat(dataclasses.replace(plan, table=table)) is is_safe


def test_small_adjacent_files_are_joined_and_large_files_are_not() -> None:
    sizes = [1, 40 * MB, 30 * MB, 100 * MB, 1, 2]
    copies = flat_files.bucket_copies([flat(i, size) for i, size in enumerate(sizes)])
    assert made_of(copies) == [(0, [0, 1, 2]), (1, [3]), (2, [4, 5])]


def test_a_file_that_is_too_large_is_split() -> None:
    copies = flat_files.bucket_copies(
        [flat(0, 383 * MB), flat(1, 2_000 * MB), flat(2, 1), flat(3, 63 * MB)]
    )
    assert made_of(copies) == [(0, [0]), *((i, [1]) for i in range(1, 9)), (9, [2, 3])]
    parts = [part for copy in copies[1:9] for part in copy.sources]
    assert [p.start for p in parts] == [250 * MB * i for i in range(8)]
    # Where one ends the next begins, and the last one has no end.
    assert [p.stop for p in parts] == [*(p.start for p in parts[1:]), None]
    assert max(copy.size_bytes for copy in copies) < 448 * MB


@pytest.mark.parametrize("files", [4_097, 4_100, 10_000])
def test_more_files_than_bucket_ids_are_joined_into_larger_files(files: int) -> None:
    copies = flat_files.bucket_copies([flat(i, 64 * MB) for i in range(files)])
    assert len(copies) <= 4096
    assert [c.bucket for c in copies] == list(range(len(copies)))
    assert [i for _, found in made_of(copies) for i in found] == list(range(files))


def test_files_of_different_partitions_are_not_joined() -> None:
    groups = [-2, -2, 5, 5]
    copies = flat_files.bucket_copies([flat(i, 63 * MB, group) for i, group in enumerate(groups)])
    assert made_of(copies) == [(0, [0, 1]), (0, [2, 3])]


def test_a_task_copies_a_limited_number_of_bytes_and_files(tmp_path: Path) -> None:
    plan = plan_at(tmp_path, partitioned=False)
    small = [
        flat_files.BucketCopy(bucket=BucketId(i), sources=(), size_bytes=1) for i in range(100)
    ]
    assert [len(t.copies) for t in flat_files.copy_tasks(plan, small)] == [64, 36]
    large = [
        flat_files.BucketCopy(bucket=BucketId(i), sources=(), size_bytes=200 * MB) for i in range(3)
    ]
    assert [len(t.copies) for t in flat_files.copy_tasks(plan, large)] == [1, 1, 1]
    assert flat_files.copy_tasks(plan, []) == []


def test_only_files_that_spark_has_committed_are_used(tmp_path: Path) -> None:
    names = [
        "part-00001-x-c000.zstd.orc",
        "part-00000-x-c000.zstd.orc",
        ".part-00000-x-c000.zstd.orc.crc",
        "_SUCCESS",
        "_temporary/0/_temporary/attempt_1/part-00002-x-c000.zstd.orc",
        "g=-4096/part-00003-x.c000.orc",
        "g=-4096/.part-00003-x.c000.orc.crc",
    ]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"abc")
    (tmp_path / "part-00005-x.c000.orc").mkdir()
    found = flat_files.committed_files(f"file:{tmp_path}")
    assert [(f.uri.removeprefix(f"file:{tmp_path}/"), f.group, f.size_bytes) for f in found] == [
        (names[5], -4096, 3),
        (names[1], None, 3),
        (names[0], None, 3),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "part-00000-x-c000.zstd.orc.1",
        "out-00000-x-c000.zstd.orc",
        "_out-00000-x-c000.zstd.orc",
        "g=__HIVE_DEFAULT_PARTITION__/part-00004-x.c000.orc",
        "g=1/h=2/part-00000-x.c000.orc",
    ],
)
def test_a_file_with_an_unexpected_name_is_refused_and_not_skipped(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"abc")
    with pytest.raises(UnsupportedFileError, match="name"):
        flat_files.committed_files(f"file:{tmp_path}")


def test_a_task_stages_a_file_for_each_bucket_with_rows(tmp_path: Path) -> None:
    plan = plan_at(tmp_path, partitioned=False)
    for number, values in enumerate([[1, 2], [], [3]]):
        write(tmp_path / f"part-{number}", values)
    sources = [FlatPart(uri=f"file:{tmp_path}/part-{number}") for number in range(3)]
    copies = (
        flat_files.BucketCopy(bucket=BucketId(0), sources=(sources[0], sources[2]), size_bytes=0),
        flat_files.BucketCopy(bucket=BucketId(1), sources=(sources[1],), size_bytes=0),
    )
    (batch,) = list(flat_files.copy_all(flat_files.CopyTask(plan=plan, copies=copies)))
    (row,) = batch.to_pylist()
    path = plan.staging(plan.partition("[]")).attempt_path(
        "base_0000007", "bucket_00000", row["attempt"]
    )
    rows = orc.ORCFile(path.removeprefix("file:")).read()["row"].to_pylist()
    assert [r["v"] for r in rows] == [1, 2, 3]
    assert (row["partition"], row["bucket"], row["rows"], row["updated"]) == ("[]", 0, 3, 0)


def test_rows_are_written_to_the_partition_that_their_file_names(tmp_path: Path) -> None:
    plan = plan_at(tmp_path, partitioned=True)
    write(tmp_path / "part-0", [1, 2], '["a/b"]')
    write(tmp_path / "part-1", [3], "[null]")
    copies = [
        flat_files.BucketCopy(
            bucket=BucketId(0), sources=(FlatPart(uri=f"file:{tmp_path}/part-{n}"),), size_bytes=0
        )
        for n in range(2)
    ]
    batches = flat_files.copy_all(flat_files.CopyTask(plan=plan, copies=tuple(copies)))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["partition"], row["rows"]) for row in rows] == [('["a/b"]', 2), ("[null]", 1)]
    for row in rows:
        staging = plan.staging(plan.partition(row["partition"]))
        path = staging.attempt_path("base_0000007", "bucket_00000", row["attempt"])
        assert orc.ORCFile(path.removeprefix("file:")).nrows == row["rows"]


def test_files_of_two_partitions_with_the_same_number_are_refused(tmp_path: Path) -> None:
    plan = plan_at(tmp_path, partitioned=True)
    write(tmp_path / "part-0", [1], '["a"]')
    write(tmp_path / "part-1", [2], '["b"]')
    sources = tuple(FlatPart(uri=f"file:{tmp_path}/part-{n}") for n in range(2))
    copy = flat_files.BucketCopy(bucket=BucketId(0), sources=sources, size_bytes=0)
    with pytest.raises(UnsupportedFileError, match="its key or compression differs"):
        list(flat_files.copy_all(flat_files.CopyTask(plan=plan, copies=(copy,))))
