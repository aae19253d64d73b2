from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from airflow_hiveacid.local.distribution import CACHE_VARIABLE, cache_dir, fetch
from airflow_hiveacid.local.process import DownloadError, MissingProgramError
from airflow_hiveacid.local.releases import HIVE_3, HIVE_4

# Does what Maven's two goals do to the file system, and counts its calls.
MAVEN = """#!/bin/bash
echo call >> {calls}
for argument in "$@"; do
  case "$argument" in
    -Dmdep.outputFile=*) printf '{jar}' > "${{argument#*=}}" ;;
    -DoutputDirectory=*) mkdir -p "${{argument#*=}}/apache-hive/scripts/metastore/upgrade" ;;
  esac
done
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "a.jar").touch()
    calls = tmp_path / "calls"
    maven = tmp_path / "bin" / "mvn"
    maven.write_text(MAVEN.format(calls=calls, jar=tmp_path / "a.jar"))
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return calls


def times_called(calls: Path) -> int:
    return calls.read_text().count("call") if calls.exists() else 0


def test_a_release_is_downloaded_once(calls: Path, tmp_path: Path) -> None:
    first = fetch(HIVE_4, cache=tmp_path / "cache")
    assert first.class_path == (tmp_path / "a.jar",)
    assert (first.home / "scripts" / "metastore").is_dir()
    assert times_called(calls) == 2
    assert fetch(HIVE_4, cache=tmp_path / "cache") == first
    assert times_called(calls) == 2


def test_releases_do_not_share_a_folder(calls: Path, tmp_path: Path) -> None:
    four, three = (fetch(release, cache=tmp_path / "cache") for release in (HIVE_4, HIVE_3))
    assert four.home != three.home
    assert times_called(calls) == 4


def test_a_release_whose_jar_was_removed_is_downloaded_again(calls: Path, tmp_path: Path) -> None:
    fetch(HIVE_4, cache=tmp_path / "cache")
    (tmp_path / "a.jar").unlink()
    with pytest.raises(DownloadError):
        fetch(HIVE_4, cache=tmp_path / "cache")
    (tmp_path / "a.jar").touch()
    fetch(HIVE_4, cache=tmp_path / "cache")
    assert times_called(calls) == 4


def test_parallel_downloads_of_a_release_run_maven_only_once(calls: Path, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=fetch, args=(HIVE_4,), kwargs={"cache": tmp_path / "cache"})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert times_called(calls) == 2


def test_a_failure_shows_the_end_of_mavens_output(calls: Path, tmp_path: Path) -> None:
    assert not calls.exists()
    (tmp_path / "bin" / "mvn").write_text("#!/bin/bash\necho 'no route to Central'\nexit 1\n")
    with pytest.raises(DownloadError, match="no route to Central"):
        fetch(HIVE_4, cache=tmp_path / "cache")


def test_without_maven_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingProgramError, match="apt-get install maven"):
        fetch(HIVE_4, cache=tmp_path / "cache")


def test_a_variable_sets_the_folder_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert cache_dir() == tmp_path
