from __future__ import annotations

import sys

import pytest

from airflow_hiveacid.spark import acid


def test_a_program_started_by_hand_says_who_starts_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["merge_orders.py", "2026-01-01"])
    called: list[object] = []
    with pytest.raises(SystemExit):
        acid.run(lambda *given: called.append(given))
    assert "HiveAcidPySparkOperator submits it" in capsys.readouterr().err
    assert called == []
