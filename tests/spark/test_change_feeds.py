"""A feed of changes: each range once, whatever happens to whoever writes it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import ChangeFeedSpec, CompactionChoice, WhenGone
from tests.support.column_lists import columns_of
from tests.support.merge_clauses import UPDATE_ALL
from tests.support.spark_lab import Lab, Row
from tests.support.steps import at


class Killed(BaseException):
    """Ends a job where it stands."""


def feed(lab: Lab, place: Path, *, job_key: str | None = None, **spec: Any) -> JobResult:  # noqa: ANN401 - passed on
    asked = ChangeFeedSpec(target=f"{lab.db}.t", location=f"file:{place}", **spec)
    return lab.run(asked, job_key=job_key)


def rows_of(lab: Lab, result: JobResult) -> list[Row]:
    found: list[Row] = []
    for one in result.details["ranges"]:  # type: ignore[union-attr]
        frame = lab.spark.read.parquet(one["location"])
        found += [tuple(r) for r in frame.select("_change_type", "_version", "id", "v").collect()]
    return sorted(found)


@pytest.mark.promise("V4")
def test_a_change_feed_continues_after_its_last_range(lab4: Lab, tmp_path: Path) -> None:
    lab4.table("t", {"id": "bigint", "v": "timestamp"})
    lab4.insert("t", [(1, "2026-01-01 00:00:00.5"), (2, None)], ["id", "v"])
    first = feed(lab4, tmp_path, keys=("id",))
    assert first.status is JobStatus.COMMITTED
    assert [(r[0], r[1], r[2]) for r in rows_of(lab4, first)] == [
        ("insert", 1, 1),
        ("insert", 1, 2),
    ]
    assert (first.rows.inserted, first.files) == (2, 1)
    stays = feed(lab4, tmp_path, keys=("id",))
    assert stays.status is JobStatus.NOTHING_TO_DO
    assert stays.details == {"ranges": [], "until": 1}
    lab4.update("t", {"v": "NULL"}, "id = 1")
    lab4.delete("t", "id = 2")
    second = feed(lab4, tmp_path, keys=("id",))
    assert [r[:3] for r in rows_of(lab4, second)] == [
        ("delete", 3, 2),
        ("update_postimage", 2, 1),
        ("update_preimage", 2, 1),
    ]
    (told,) = second.details["ranges"]  # type: ignore[misc]
    assert (told["since"], told["until"], told["is_whole"]) == (1, 3, False)
    # A compaction is no change.
    lab4.compact("t", CompactionChoice.MAJOR)
    assert feed(lab4, tmp_path, keys=("id",)).status is JobStatus.NOTHING_TO_DO
    # A range without rows is over, too: the next one does not need its files.
    lab4.insert("t", [(3, None)], ["id", "v"])
    lab4.delete("t", "id = 3")
    nothing = feed(lab4, tmp_path, keys=("id",), is_net=True, job_key="dag/none/task/-1")
    assert nothing.status is JobStatus.NOTHING_TO_DO
    assert nothing.details == {"ranges": [], "until": 5}
    lab4.compact("t", CompactionChoice.MAJOR)
    again = feed(lab4, tmp_path, keys=("id",), is_net=True, job_key="dag/none/task/-1")
    assert (again.status, again.details) == (nothing.status, nothing.details)
    lab4.insert("t", [(4, None)], ["id", "v"])
    third = feed(lab4, tmp_path, keys=("id",))
    assert [r[:3] for r in rows_of(lab4, third)] == [("insert", 6, 4)]
    (told,) = third.details["ranges"]  # type: ignore[misc]
    assert (told["since"], told["until"], told["is_whole"]) == (5, 6, False)


def test_a_change_feed_reports_a_truncated_table_as_a_whole_table_without_rows(
    lab4: Lab, tmp_path: Path
) -> None:
    columns = columns_of(
        "id bigint, v timestamp, d decimal(7,2), s struct<a:int,b:struct<c:varchar(3)>>, "
        "l array<date>, m map<string,array<double>>, b binary"
    )
    values = (
        "1, TIMESTAMP '2026-01-01 00:00:00', 1.5,"
        " named_struct('a', 1, 'b', named_struct('c', 'x')),"
        " array(DATE '2026-01-01'), map('a', array(cast(1 as double))), cast('x' as binary)"
    )
    for name in ("t", "copy"):
        lab4.table(name, columns, partition={"p": "date"})
        lab4.script(f"INSERT INTO {name} PARTITION (p = '2026-01-01') SELECT {values}")
    first = feed(lab4, tmp_path, when_gone=WhenGone.WHOLE)
    lab4.script("TRUNCATE TABLE t")
    whole = feed(lab4, tmp_path, when_gone=WhenGone.WHOLE)
    assert (whole.status, whole.files, whole.rows.inserted) == (JobStatus.COMMITTED, 1, 0)
    before, after = (
        lab4.spark.read.parquet(one.details["ranges"][0]["location"])  # type: ignore[index, call-overload]
        for one in (first, whole)
    )
    assert (after.count(), after.schema) == (0, before.schema)
    assert whole.details["ranges"][0]["is_whole"] is True  # type: ignore[index, call-overload]
    assert feed(lab4, tmp_path, when_gone=WhenGone.WHOLE).status is JobStatus.NOTHING_TO_DO
    location = whole.details["ranges"][0]["location"]  # type: ignore[index, call-overload]
    lab4.run(
        statements.MergeSpec(
            target=f"{lab4.db}.copy",
            source=statements.SourceSpec(format="parquet", location=location),
            keys=("id",),
            clauses=(
                UPDATE_ALL,
                statements.MergeClause(
                    when=statements.MergeWhen.NOT_MATCHED_BY_SOURCE,
                    action=statements.MergeAction.DELETE,
                ),
            ),
        )
    )
    assert lab4.rows("copy") == []


def test_a_retry_of_a_change_feed_writes_its_range_only_if_it_was_not_yet_published(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"})
    lab4.insert("t", [(1, 1)], ["id", "v"])
    spec = ChangeFeedSpec(target=f"{lab4.db}.t", location=f"file:{tmp_path}")

    def die_at(step: str) -> Any:  # noqa: ANN401 - a hook
        def reached(found: str) -> None:
            if found == step:
                raise Killed(step)

        return reached

    with pytest.raises(Killed):
        lab4.run(spec, job_key="dag/one/task/-1", on_step=die_at("staged"))
    assert not list(tmp_path.glob("changes_*"))
    lab4.insert("t", [(2, 2)], ["id", "v"])
    with pytest.raises(Killed):
        lab4.run(spec, job_key="dag/one/task/-1", on_step=die_at("published"))
    lab4.insert("t", [(3, 3)], ["id", "v"])
    again = lab4.run(spec, job_key="dag/one/task/-1")
    assert again.status is JobStatus.ALREADY_DONE
    assert rows_of(lab4, again) == [("insert", 1, 1, 1), ("insert", 2, 2, 2)]
    following = lab4.run(spec, job_key="dag/two/task/-1")
    assert rows_of(lab4, following) == [("insert", 3, 3, 3)]
    # Cleared, or deleted and made again, with what comes after it: it has the same range again.
    lab4.insert("t", [(4, 4)], ["id", "v"])
    for generation in (1, 0):
        same = lab4.run(spec, job_key="dag/one/task/-1", generation=generation)
        assert same.status is JobStatus.ALREADY_DONE
        assert rows_of(lab4, same) == rows_of(lab4, again)
    with pytest.raises(errors.ConfigurationError, match="a different keys, until"):
        feed(lab4, tmp_path, job_key="dag/one/task/-1", keys=("id",), until="version 1")


def test_a_change_feed_overtaken_by_another_writer_continues_after_it_on_retry(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"})
    lab4.insert("t", [(1, 1)], ["id", "v"])
    spec = ChangeFeedSpec(target=f"{lab4.db}.t", location=f"file:{tmp_path}")
    overtaken = at("staged", lambda: lab4.run(spec, job_key="dag/first/task/-1"))
    with pytest.raises(errors.FeedOvertakenError, match=r"another process wrote .*changes_0000000"):
        lab4.run(spec, job_key="dag/second/task/-1", on_step=overtaken)
    lab4.insert("t", [(2, 2)], ["id", "v"])
    again = lab4.run(spec, job_key="dag/second/task/-1")
    assert rows_of(lab4, again) == [("insert", 2, 2, 2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "changes_0000000",
        "changes_0000001",
    ]


def test_a_change_feed_ends_at_its_until_version_and_raises_after_a_hive_3_truncate(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "int"})
    for i in range(2):
        lab4.insert("t", [(i, i, i)], ["id", "v", "p"])
    asked: dict[str, Any] = {"pre_images": False, "since": "version 0"}
    first = feed(lab4, tmp_path, until="version 1", **asked)
    assert rows_of(lab4, first) == [("insert", 1, 0, 0)]
    second = feed(lab4, tmp_path, **asked)
    assert rows_of(lab4, second) == [("insert", 2, 1, 1)]
    lab4.delete("t", "id = 1")
    third = feed(lab4, tmp_path, **asked)
    assert rows_of(lab4, third) == [("delete", 3, None, None)]
    # TRUNCATE of Hive 3.1, in a table of which no job of ours has left a note.
    root = Path(lab4.info("t").location.removeprefix("file:"))
    for path in (root / "_hiveacid", *(root / "p=0").iterdir()):
        shutil.rmtree(path)
    lab4.insert("t", [(5, 5, 1)], ["id", "v", "p"])
    with pytest.raises(errors.ChangesGoneError, match="was at"):
        feed(lab4, tmp_path, **asked)
    whole = feed(lab4, tmp_path, when_gone=WhenGone.WHOLE, **asked)
    assert rows_of(lab4, whole) == [("insert", 4, 5, 5)]


def test_changes_that_are_gone_raise_an_error_or_give_the_whole_table_if_configured(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "int"})
    lab4.insert("t", [(1, 1, 1), (2, 2, 2)], ["id", "v", "p"])
    feed(lab4, tmp_path)
    lab4.delete("t", "id = 1")
    lab4.insert("t", [(3, 3, 1)], ["id", "v", "p"])
    lab4.compact("t", CompactionChoice.MAJOR)
    with pytest.raises(errors.ChangesGoneError):
        feed(lab4, tmp_path)
    whole = feed(lab4, tmp_path, when_gone=WhenGone.WHOLE)
    assert rows_of(lab4, whole) == [("insert", 1, 2, 2), ("insert", 3, 3, 3)]
    assert whole.details["ranges"][0]["is_whole"] is True  # type: ignore[index, call-overload]
    lab4.script("ALTER TABLE t DROP PARTITION (p = 1)")
    lab4.insert("t", [(4, 4, 2)], ["id", "v", "p"])
    with pytest.raises(errors.FeedError, match="p=1"):
        feed(lab4, tmp_path)
    lab4.script("DROP TABLE t")
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "int"})
    with pytest.raises(errors.FeedError, match="created again"):
        feed(lab4, tmp_path, when_gone=WhenGone.WHOLE)
