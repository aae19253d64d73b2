"""How a try checks a change feed and its table; tests/spark runs complete change feeds."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.errors import ConfigurationError, FeedError
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableRef, TransactionalKind
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import ChangeFeedSpec, WhenGone
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.plan.statements.parameters import read_parameters, said
from airflow_hiveacid.spark.statements import change_feed, change_feed as changes
from airflow_hiveacid.spark.writing import context
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.storage.stores.change_feed import ChangeFeed, FeedNote
from tests.support.one_row import CONTEXT
from tests.support.terms import job_spec

REF = TableRef("db", "t")


def note(since: int, job_key: str) -> FeedNote:
    return FeedNote(
        table="db.t",
        table_id="7",
        since=since,
        until=since + 1,
        is_whole=False,
        job_key=job_key,
        attempt="1-00c0ffee0123",
    )


def job(job_key: str, try_number: int = 1, generation: int = 0, **asked: Any) -> Any:  # noqa: ANN401 - a stand-in
    spec = job_spec(
        ChangeFeedSpec(target="db.t", location="/feed", **asked),
        job_key,
        attempt=f"{try_number}-0123456789ab",
        generation=generation,
    )
    return SimpleNamespace(spec=spec)


def test_the_snapshot_of_a_change_feed_carries_its_job_key_and_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other tries and kills recognize the transactions of each try by them."""
    given: list[JobTerms] = []

    def held(_client: object, _tables: object, terms: JobTerms) -> None:
        given.append(terms)
        raise InterruptedError

    monkeypatch.setattr(context, "held_snapshot", held)
    for name in ("give_store_settings", "give_store_tokens"):
        monkeypatch.setattr(changes, name, lambda _: None)
    asked = job("one", 3)
    spark: Any = SimpleNamespace(sparkContext=CONTEXT)
    nothing: Any = None
    with pytest.raises(InterruptedError):
        change_feed.feed_changes(JobContext.of(spark, asked.spec, nothing))
    (terms,) = given
    assert (terms.job_key, terms.attempt) == ("one", AttemptId(3, "0123456789ab"))


# Tried again, cleared, deleted and made again.
@pytest.mark.parametrize(("try_number", "generation"), [(2, 0), (1, 1), (1, 0)])
def test_a_run_finds_its_own_range_after_a_later_run_has_continued_the_feed(
    tmp_path: Path, try_number: int, generation: int
) -> None:
    feed = ChangeFeed(f"file:{tmp_path}/feed")
    for since, run in enumerate(("one", "two")):
        feed.publish(feed.new_directory(since, "a"), note(since, run), {})
    assert change_feed._own(feed, job("one", try_number, generation)) == note(0, "one")
    assert change_feed._own(feed, job("two", try_number, generation)) == note(1, "two")
    assert change_feed._own(feed, job("three", try_number, generation)) is None


@pytest.mark.parametrize(
    ("then", "now", "differing"),
    [
        ({"until": "version 3"}, {"until": "version 4"}, "until"),
        ({}, {"keys": ("id",), "is_net": True}, "is_net, keys"),
        ({"keys": ("id",)}, {"keys": ("id",), "when_gone": WhenGone.WHOLE}, None),
        ({"where": "a > 1"}, {"where": "a > 1"}, None),
    ],
)
def test_a_run_that_requests_different_changes_does_not_get_its_earlier_range(
    tmp_path: Path, then: dict[str, Any], now: dict[str, Any], differing: str | None
) -> None:
    feed = ChangeFeed(f"file:{tmp_path}/feed")
    done = replace(note(0, "one"), asked=change_feed._asked(job("one", **then)))
    feed.publish(feed.new_directory(0, "a"), done, {})
    with (
        nullcontext()
        if differing is None
        else pytest.raises(ConfigurationError, match=f"a different {differing}\\.")
    ):
        assert change_feed._own(feed, job("one", 2, **now)) == done


@pytest.mark.parametrize(
    ("file", "is_older"),
    [
        ("delta_0000001_0000001_0000/bucket_00000", True),
        ("base_0000001/bucket_00000", True),
        ("delta_0000001_0000003/bucket_00000", True),
        ("000000_0", True),
        ("delta_0000002_0000002_0000/bucket_00000", False),
        ("base_0000003_v0000009/bucket_00000", False),
    ],
)
def test_an_added_partition_with_older_rows_stops_the_change_feed(
    tmp_path: Path, file: str, is_older: bool
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("rows")
    place = PartitionInfo(name=PartitionName.parse("p=2"), location=f"file:{tmp_path}")
    snapshot: Any = SimpleNamespace(
        client=SimpleNamespace(get_partitions=lambda _table, names: [place] if names else []),
        tables={REF: SimpleNamespace(kind=TransactionalKind.FULL_ACID)},
        snapshot=Snapshot(
            txn_id=None,
            txns=ValidTxnList.parse(""),
            tables={REF: ValidWriteIdList.parse("db.t:3:9223372036854775807::")},
        ),
    )
    feed = ChangeFeed(f"file:{tmp_path}/feed")
    known = replace(note(0, "one"), births={"p=1": 5, "p=2": 7})
    change_feed._check_added(feed, known, {"p=1": 5, "p=2": 7}, snapshot)
    last = replace(note(0, "one"), births={"p=1": 5})
    with pytest.raises(FeedError, match="p=2") if is_older else nullcontext():
        change_feed._check_added(feed, last, {"p=1": 5, "p=2": 7}, snapshot)


def test_a_change_feed_continues_only_with_the_same_filter(tmp_path: Path) -> None:
    feed = ChangeFeed(f"file:{tmp_path}/feed")
    table: Any = SimpleNamespace(ref=REF, table_id="7")
    change_feed._check_same(feed, note(0, "one"), table, None)
    chosen = replace(note(0, "one"), where="carrier = 'UA'")
    change_feed._check_same(feed, chosen, table, "carrier = 'UA'")
    given = read_parameters({"carrier": "UA"})
    with_value = replace(note(0, "one"), where=said("carrier = :carrier", given))
    change_feed._check_same(feed, with_value, table, said("carrier = :carrier", given))
    another = said("carrier = :carrier", read_parameters({"carrier": "DL"}))
    with pytest.raises(FeedError, match=r"not where carrier = :carrier \[:carrier = string 'DL'\]"):
        change_feed._check_same(feed, with_value, table, another)
    for last, where in ((chosen, "carrier = 'DL'"), (chosen, None), (note(0, "one"), "a > 1")):
        with pytest.raises(FeedError, match="not where"):
            change_feed._check_same(feed, last, table, where)


def test_a_change_feed_with_a_changed_primary_key_is_refused(tmp_path: Path) -> None:
    """After the key was dropped, deleted rows without old values would have no key at all."""
    feed = ChangeFeed(f"file:{tmp_path}/feed")
    feed.publish(feed.new_directory(0, "a"), replace(note(0, "one"), keys=("id", "day")), {})
    last = feed.last()
    assert last is not None
    change_feed._check_keys(feed, last, ("id", "day"))
    for keys in ((), ("id",)):
        with pytest.raises(ConfigurationError, match="uses the keys id, day"):
            change_feed._check_keys(feed, last, keys)


def test_a_range_belongs_to_the_run_that_wrote_it(tmp_path: Path) -> None:
    feed = ChangeFeed(f"file:{tmp_path}/feed")
    written = note(0, "k")
    feed.publish(feed.new_directory(0, "a"), written, {})
    job: Any = SimpleNamespace(spec=SimpleNamespace(job_key="k", statement={}))
    assert change_feed._own(feed, job) == written
    job.spec.job_key = "k@blue"
    assert change_feed._own(feed, job) is None


def test_a_result_names_the_open_write_that_holds_committed_writes_back() -> None:
    done = JobResult(kind="change_feed", job_key="k", status=JobStatus.NOTHING_TO_DO, table="d.t")
    for text in ("d.t:9:9223372036854775807::", "d.t:9:9:9:", "d.t:9:8:8,9:"):
        assert changes._with_left(done, ValidWriteIdList.parse(text)) == done
    found = changes._with_left(done, ValidWriteIdList.parse("d.t:9:7:7:8"))
    assert found.details["left"] == {
        "versions": 1,
        "why": "write ID 7 is lower and still open; a later run writes them",
    }
