"""Which failed reads the first base of a table explains."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import NotEnoughHistoryError
from tests.proofs.campaign.bases import read_bases, was_turned_away_by_first_base
from tests.proofs.campaign.polls import Poll


def turned_away(location: str, base: str, *, began_at: float, kind: str | None = None) -> Poll:
    error = NotEnoughHistoryError(location=location, high_watermark=9, oldest_base=base)
    return Poll(
        reader="spark-reader-1",
        began_at=began_at,
        ended_at=began_at + 2.0,
        tables={},
        error=(kind or type(error).__name__, str(error)),
    )


def answer(folder: Path, at: float, table: str, partition: str, *outputs: str) -> Path:
    file = folder / f"answer-{at}.json"
    done = {"partition": partition, "outputs": outputs}
    file.write_text(
        json.dumps({"table": table, "details": {"compactions": [done]}}), encoding="utf-8"
    )
    os.utime(file, (at, at))
    return file


FIRST = "base_0000004"
BUCKETED = "file:/disk/campaign.db/bucketed"


@pytest.mark.parametrize(
    ("poll", "is_foreseen"),
    [
        (turned_away(BUCKETED, FIRST, began_at=99.0), True),
        (turned_away(BUCKETED, FIRST, began_at=101.0), False),  # its snapshot knows the base
        (turned_away(BUCKETED, "base_0000007", began_at=99.0), False),  # the first one is gone
        (turned_away(BUCKETED, "base_0000002", began_at=99.0), True),  # its writer was killed
        (turned_away(BUCKETED, FIRST, began_at=99.0, kind="StorageError"), False),
        (turned_away("file:/disk/campaign.db/parted/p=1", FIRST, began_at=101.0), True),
        (Poll(reader="r", began_at=1.0, ended_at=2.0, tables={}), False),
    ],
)
def test_only_the_first_base_of_a_table_excuses_a_not_enough_history_error(
    tmp_path: Path, poll: Poll, is_foreseen: bool
) -> None:
    answers = [
        answer(tmp_path, 100.0, "campaign.bucketed", "", FIRST),
        answer(tmp_path, 200.0, "campaign.bucketed", "", "base_0000007"),
        answer(tmp_path, 50.0, "campaign.parted", "p=0", FIRST),
        answer(tmp_path, 51.0, "campaign.parted", "p=1", "delta_0000001_0000004"),
    ]
    assert was_turned_away_by_first_base(poll, read_bases(answers)) is is_foreseen


def test_answers_of_writers_and_failed_jobs_contain_no_bases(tmp_path: Path) -> None:
    file = tmp_path / "answer-1.json"
    file.write_text(json.dumps({"table": "campaign.parted", "details": {}}), encoding="utf-8")
    assert read_bases([file]) == []
