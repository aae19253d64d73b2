"""Which roots a restore may write, and when it is refused before it begins."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from airflow_hiveacid.format.errors import VersionGoneError
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.versions.restoring import differing_now, warn_of_new
from tests.unit.versions.conftest import Bench


def test_a_restore_selects_only_partitions_written_since_the_version(halves: Bench) -> None:
    halves.we_write("p=1")
    halves.we_write("p=2")
    halves.we_write("p=2")
    (found,) = differing_now(halves.client, halves.table, VersionSpec(number=2))
    assert str(found.info.name) == "p=2"
    assert [d.high for d in found.now.live] == [2, 3]
    assert [d.high for d in found.then.live] == [2]


def test_a_restore_accepts_a_timestamp_or_a_tag_as_its_version(halves: Bench) -> None:
    halves.we_write("p=1")
    halves.tag("good", version=1)
    halves.clock.advance(100)
    then_s = halves.client.server.now_s()
    halves.clock.advance(100)
    halves.we_write("p=2")
    for version in (
        VersionSpec.of(timestamp=datetime.fromtimestamp(then_s, UTC)),
        VersionSpec.of(tag="good"),
    ):
        (found,) = differing_now(halves.client, halves.table, version)
        assert str(found.info.name) == "p=2"
        assert ([d.high for d in found.now.live], found.then.live) == ([2], ())


def test_a_restore_is_refused_if_a_partition_of_the_version_was_dropped(halves: Bench) -> None:
    halves.we_write("p=1")
    halves.we_write("p=2")
    halves.we_write("p=2")
    halves.drop("p=1")
    with pytest.raises(VersionGoneError, match="partition p=1 was dropped"):
        differing_now(halves.client, halves.table, VersionSpec(number=2))


def test_a_restore_says_which_partitions_had_no_files_at_the_version(
    halves: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Another engine's rows leave no note, so the partition that it made again looks new."""
    halves.somebody_writes("p=1")
    halves.we_write("p=2")
    shutil.rmtree(halves.root / "p=1")
    (halves.root / "p=1").mkdir()
    halves.we_write("p=1")
    halves.we_write("p=2")
    version = VersionSpec(number=2)
    roots = differing_now(halves.client, halves.table, version)
    warn_of_new(halves.table, version, roots)
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "its earlier rows are lost" in told
    assert "partition=p=1 version=version 2" in told


@pytest.mark.parametrize(
    ("dropped", "told"),
    [
        (1, "partition p=1 was dropped"),
        (3, "partitions p=1, p=2, p=3 were dropped"),
        (7, "partitions p=1, p=2, p=3, p=4, p=5 and 2 more were dropped"),
    ],
)
def test_a_refused_restore_names_dropped_partitions_and_does_not_advise_to_keep_versions(
    make_bench: Callable[..., Bench], dropped: int, told: str
) -> None:
    places = tuple(f"p={number}" for number in range(1, 9))
    bench = make_bench(partitions=places)
    for place in places:
        bench.we_write(place)
    for place in places[:dropped]:
        bench.drop(place)
    with pytest.raises(VersionGoneError) as caught:
        differing_now(bench.client, bench.table, VersionSpec(number=8))
    assert told in str(caught.value)
    assert "readable" not in str(caught.value).replace("oldest readable version", "")
    assert "TRUNCATE" in str(caught.value)


def test_the_error_advises_keeping_versions_only_if_keeping_would_have_helped(bench: Bench) -> None:
    """A compaction is another matter: that is what keeping is for."""
    bench.we_write()
    bench.we_write()
    bench.truncate()
    with pytest.raises(VersionGoneError) as caught:
        differing_now(bench.client, bench.table, VersionSpec(number=1))
    assert "hiveacid.readable.for" not in str(caught.value)
    bench.we_write(overwrites=True)
    with pytest.raises(VersionGoneError, match=r"hiveacid\.readable\.for"):
        differing_now(bench.client, bench.table, VersionSpec(number=2))
