"""The command, as far as it starts nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.proofs.clusters import __main__ as command
from tests.proofs.clusters.cells import RAN, Cell

if TYPE_CHECKING:
    from pathlib import Path


def test_without_an_area_all_areas_run_and_an_unknown_area_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def try_one(area: str, _place: Path, _only: str) -> list[Cell]:
        tried.append(area)
        return [Cell(area=area, combination="one", version="1", outcome=RAN)]

    monkeypatch.setattr(command, "_try", try_one)
    monkeypatch.setattr(command, "drop_others", lambda *_: None)
    assert command.main([]) == 0
    assert {"logins", "hdfs", "s3", "yarn"} <= set(tried)
    assert command.main(["s3"]) == 0
    assert tried[-1] == "s3"
    with pytest.raises(SystemExit):
        command.main(["moon"])
