"""Random lives of a kept table: what every version, tag and reader of them finds at the end.

Every settled version equals the model or is refused, the history says which beforehand, every tag
reads what it stood for, and no reader lost a file while its transaction was open.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import VersionGoneError
from airflow_hiveacid.versions.history import history_of
from tests.support.version_lives import STEPS, Life, live, make_life

WITH_LOSSES = [step for step in STEPS if step not in {"read", "unread", "tag", "untag"}]
WITH_LOSSES += ["truncate", "truncate", "give up", "keep"]


def check(life: Life, seed: int) -> tuple[int, int]:
    """See that every version is what it was or refused; gives how many are answered, and refused.

    As the history says, and with the oldest version that it says.
    """
    newest = life.snapshot().write_ids(life.ref).high_watermark
    settled = min((*life.is_open, newest + 1))
    history = history_of(life.client, life.table)
    told = {v.number: v.is_readable for v in history.versions}
    answered = []
    refused = []
    for number in range(1, settled):
        try:
            rows = life.read_past(life.past(version=number))
        except VersionGoneError as error:
            refused.append((number, error.oldest))
        else:
            answered.append(number)
            assert rows == life.version(number), (seed, number)
    for number, is_readable in told.items():
        assert is_readable is (number in answered), (seed, number)
    assert {oldest for _, oldest in refused} <= {history.oldest}, (seed, refused)
    assert history.oldest == min(answered, default=0), seed
    return len(answered), len(refused)


@pytest.mark.promise("V6")
@pytest.mark.promise("V7")
def test_every_version_of_a_random_history_is_unchanged_or_refused(tmp_path: Path) -> None:
    answered = refused = tagged = 0
    for seed in range(20):
        life = make_life(seed, tmp_path)
        live(life, 60)
        yes, no = check(life, seed)
        answered, refused = answered + yes, refused + no
        for name, committed in life.tags.items():
            assert life.read_past(life.past(tag=name)) == life.copy(committed), (seed, name)
            tagged += 1
        while life.readers:
            life.end_reading()
    assert min(answered, refused, tagged) > 5  # else nothing was tried


@pytest.mark.promise("V6")
def test_every_version_is_unchanged_or_refused_after_files_are_lost_without_a_write_id(
    tmp_path: Path,
) -> None:
    answered = refused = removed = 0
    for seed in range(20):
        life = make_life(seed, tmp_path)
        life.noted = 1.0  # else nobody could know
        live(life, 70, WITH_LOSSES)
        yes, no = check(life, seed)
        answered, refused = answered + yes, refused + no
        removed += sum(map(len, life.truncated.values()))
    assert min(answered, refused, removed) > 10
