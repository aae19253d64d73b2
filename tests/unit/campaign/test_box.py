"""The files between the campaign and its processes."""

from __future__ import annotations

from pathlib import Path

from tests.proofs.campaign.box import Box


def test_only_complete_answers_are_listed(tmp_path: Path) -> None:
    box = Box(folder=tmp_path)
    box.answer_of("1-a").write_text("{}")
    box.say_answered("1-a")
    box.answer_of("1-b").touch()  # its process was killed
    assert box.answers() == [tmp_path / "answer-1-a.json"]
