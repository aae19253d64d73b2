from __future__ import annotations

import logging

import pytest

from airflow_hiveacid.format import words
from airflow_hiveacid.format.errors import StorageError

NAME = "day=1\x1b[2J\u202e\n2026 INFO - all is well"
SHOWN = r"day=1\x1b[2J\u202e\n2026 INFO - all is well"


@pytest.fixture
def _escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hiveacid", "airflow_hiveacid"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    words.escape_our_log()
    words.escape_our_log()


@pytest.mark.usefixtures("_escaped")
@pytest.mark.parametrize("logger", ["hiveacid", "airflow_hiveacid.versions.losses"])
def test_names_of_other_clients_are_escaped_in_our_lines_of_a_log(
    logger: str, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger(logger).warning("cannot clean %s %d: %s", NAME, 3, StorageError("a\n\tb\r"))
    assert caplog.messages == [f"cannot clean {SHOWN} 3: a\n\tb\\r"]


@pytest.mark.usefixtures("_escaped")
def test_lines_of_other_libraries_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("another").warning("at %s", NAME)
    assert caplog.messages == [f"at {NAME}"]


@pytest.mark.usefixtures("_escaped")
def test_a_process_without_handlers_still_prints_our_warnings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logging.getLogger("hiveacid").info("not shown")
    logging.getLogger("hiveacid").warning("at %s", NAME)
    assert capsys.readouterr().err == f"at {SHOWN}\n"


def test_a_handler_that_a_program_added_before_gets_each_escaped_warning_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger("hiveacid"), "handlers", [logging.StreamHandler()])
    words.escape_our_log()
    logging.getLogger("hiveacid").warning("at %s", NAME)
    assert capsys.readouterr().err == f"at {SHOWN}\n"


def test_texts_count_as_one_only_if_they_differ_in_ages_or_in_what_remains() -> None:
    reader, young = "transaction 7 has been open for {} and may read it", "changed less than {} ago"
    texts = (
        *(f"the retention of 7 d ends in {span}" for span in ("1 d", "7 d", "6 d 23 h")),
        "the retention of 1 h ends in 59 min 5 s",
        *(reader.format(span) for span in ("1 d 2 h", "9 s")),
        *(young.format(span) for span in ("1 d", "30 d")),
    )
    found = words.counted(texts)
    assert found == {
        "the retention of 7 d ends in 1 d to 7 d": 3,
        "the retention of 1 h ends in 59 min 5 s": 1,
        reader.format("1 d 2 h"): 2,
        young.format("1 d"): 1,
        young.format("30 d"): 1,
    }
    # These counts of two tables are counted again.
    ends = ["the retention of 7 d ends in 5 s", *found]
    assert "the retention of 7 d ends in 5 s to 7 d" in words.counted(ends)
