"""The search for secrets itself: what is planted in each place is found."""

from __future__ import annotations

import base64
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.secret_search import files_with, run_looking

_WORD = f"canary-of-a-search-{os.getpid()}"  # whoever runs this as well has another
_SECRET = _WORD.encode()
# In the shell's own words nothing of it may stand: those are a command line, too.
_HALVES = f"a={_WORD[:9]}; b={_WORD[9:]}; "


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (_HALVES + 'sh -c "sleep 1; : $a$b"', f"sh\0-c\0sleep 1; : {_WORD}\0"),
        (
            _HALVES + 'mkdir "$TMPDIR/hiveacid-x"; echo $a$b > "$TMPDIR/hiveacid-x/spec.json";'
            ' sleep 1; rm -r "$TMPDIR/hiveacid-x"',
            "spec.json",
        ),
        (_HALVES + "sleep 0.5", None),
    ],
    ids=["command line", "job description", "nothing"],
)
def test_a_secret_that_is_visible_for_a_moment_is_found(
    tmp_path: Path, script: str, found: str | None
) -> None:

    log = tmp_path / "said.log"
    _, seen = run_looking(script, lambda: [_SECRET], cwd=tmp_path, env=dict(os.environ), log=log)
    assert seen == ([] if found is None else [found])


def test_the_error_for_a_failed_script_contains_its_output(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no such luck"):
        run_looking(
            "echo no such luck; false",
            lambda: [_SECRET],
            cwd=tmp_path,
            env={},
            log=tmp_path / "said.log",
        )


def test_every_file_below_a_folder_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "events").write_bytes(b"\0" + base64.b64encode(_SECRET) + b"\xff")
    (tmp_path / "a" / "airflow.db").write_bytes(b"\0\0" + _SECRET)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert files_with(tmp_path, [_SECRET]) == ["a/airflow.db"]
    forms = [_SECRET, base64.b64encode(_SECRET)]
    assert sorted(files_with(tmp_path, forms)) == ["a/airflow.db", "a/b/events"]


def test_folders_that_are_removed_during_the_search_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "stays").mkdir()
    (tmp_path / "stays" / "log").write_bytes(_SECRET)
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            for number in range(20):
                (tmp_path / "scratch" / str(number) / "deep").mkdir(parents=True)
                (tmp_path / "scratch" / str(number) / "deep" / "file").write_bytes(_SECRET)
            shutil.rmtree(tmp_path / "scratch")

    with ThreadPoolExecutor(1) as beside:
        going = beside.submit(come_and_go)
        try:
            looks = [files_with(tmp_path, [_SECRET]) for _ in range(200)]
        finally:
            stop.set()
        going.result()
    assert all("stays/log" in look for look in looks)
    assert any(len(look) > 1 for look in looks)
