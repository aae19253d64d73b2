"""The rows that a reader beside other writes may see."""

from __future__ import annotations

import pytest

from tests.proofs.bench.check import WrongRowsError
from tests.proofs.bench.compaction.readers import Progress, require_whole_writes

BASE = 1_000_000


@pytest.mark.parametrize("appends", [2, 3, 4])
def test_rows_of_the_base_and_of_whole_appends_are_accepted(appends: int) -> None:
    require_whole_writes(BASE + 250 * appends, BASE, 2, 4)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(0, id="no base"),
        pytest.param(BASE // 2 + 500, id="half a base"),
        pytest.param(2 * BASE + 500, id="two bases"),
        pytest.param(BASE + 600, id="a part of an append"),
        pytest.param(BASE + 250, id="too few appends"),
        pytest.param(BASE + 1250, id="too many appends"),
    ],
)
def test_rows_that_are_not_those_of_whole_writes_are_refused(rows: int) -> None:
    with pytest.raises(WrongRowsError, match=f"saw {rows} rows.* 2 to 4 appends"):
        require_whole_writes(rows, BASE, 2, 4)


def test_beside_overwrites_a_reader_need_not_see_an_append() -> None:
    for with_overwrites, least in ((False, 1), (True, 0)):
        progress = Progress.none(with_overwrites=with_overwrites)
        if progress.ended is not None:
            progress.ended.value += 1
        assert progress.least() == least
