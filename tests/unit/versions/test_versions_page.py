"""The tables of docs/reference/versions.md, and what their runs take."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from airflow_hiveacid.supported_versions import JAVA, PYSPARK
from tests.proofs.versions import airflow_releases, metastores, pysparks, steps
from tests.support.documents import ROOT, between

GOOD = airflow_releases.Outcome(
    version="3.2.2",
    raised=("pyarrow 23.0.1 to 26.0.1",),
    steps=("passed", "9 imported", "17 parsed", "5 passed"),
)


def test_the_page_names_every_minor_that_the_run_tries() -> None:
    minors = ", ".join(version.rpartition(".")[0] for version in airflow_releases.RELEASES)
    assert f"| Airflow | {minors} |" in airflow_releases.PAGE.read_text()
    between(airflow_releases.PAGE.read_text(), airflow_releases.MARK)


def test_a_metastores_line_has_the_counts_of_its_tests(tmp_path: Path) -> None:
    between(metastores.PAGE.read_text(), metastores.MARK)
    page = tmp_path / "page.md"
    page.write_text(f"<!-- {metastores.MARK} -->\n<!-- end of metastores -->\n")
    good = metastores.Outcome("4.2.0", ("90 passed", "1 passed"), is_good=True)
    metastores.write([good], page)
    assert between(page.read_text(), metastores.MARK).splitlines()[2:] == [
        "| 4.2.0 | 90 passed | 1 passed |"
    ]


SAMPLE = ("tests/spark/test_a.py",)
COMMIT = "0123456789ab"
NEWEST_JAVA = pysparks.Cell("4.3.0", 25, "local")


def test_every_supported_pyspark_is_tried_and_make_test_runs_the_oldest_and_the_newest() -> None:
    minors = [version.rpartition(".")[0] for version in pysparks.RELEASES]
    assert minors == list(PYSPARK.versions)
    chosen = f"\nOLDEST_SPARK := {pysparks.OLDEST}\nNEWEST_SPARK := {pysparks.NEWEST}\n"
    assert chosen in (ROOT / "Makefile").read_text()


def test_the_page_claims_the_pairs_of_pyspark_and_java_that_the_run_tries() -> None:
    page = pysparks.PAGE.read_text()
    pairs = {(v.rpartition(".")[0], j) for v, javas in pysparks.RELEASES.items() for j in javas}
    claims: list[str] = []
    untested: list[str] = []
    for java in map(int, JAVA.versions):
        tried = [minor for minor in PYSPARK.versions if (minor, java) in pairs]
        others = [minor for minor in PYSPARK.versions if minor not in tried]
        claims.append(f"{java} (with PySpark {', '.join(tried)})" if others else str(java))
        if others and java > 17:  # Spark 4 does not start with an older one
            untested.append(f"{java} with PySpark {', '.join(others)}; ")
    assert f"| Java of drivers and executors | {', '.join(claims)} |" in page
    assert f"| Java | below 11 | start of a driver | {''.join(untested)}other versions |" in page


def test_the_oldest_and_the_newest_pyspark_run_all_tests_once_and_the_others_a_sample() -> None:
    whole = [cell.name for cell in pysparks.CELLS if cell.is_whole]
    assert whole == ["3.5.9/17/local", "4.3.0/17/local"]
    assert len(set(pysparks.NAMES)) == len(pysparks.NAMES)
    assert {"4.2.1", "4.2.1/17/local", "4.2.1/17/standalone"} <= set(pysparks.NAMES)
    assert NEWEST_JAVA.tests(SAMPLE) == ("-m", "spark and not long", *SAMPLE)
    in_a_cluster = pysparks.Cell("4.3.0", 25, "standalone").tests(SAMPLE)
    assert in_a_cluster[2:] == (
        *SAMPLE,
        *("-k", "not secret_of_a_source_option", "tests/spark/test_cluster.py"),
    )


def test_results_of_one_pyspark_are_kept_beside_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(pysparks.PAGE.read_text(), pysparks.MARK)
    page, records = tmp_path / "page.md", tmp_path / "folder" / "pyspark.json"
    page.write_text(f"<!-- {pysparks.MARK} -->\n<!-- end of pyspark -->\n")
    commands: list[tuple[str, ...]] = []
    changes = iter((" M tests/conftest.py\n", ""))

    def run(*command: str, variables: dict[str, str] | None = None) -> str:
        if command[0] == "git":
            return f"{COMMIT}\n" if command[1] == "rev-parse" else next(changes)
        commands.append(command)
        if variables and variables["HIVEACID_SPARK_MASTER"] == "standalone":
            raise steps.StepError("1 failed, 2 passed")
        return "3 passed in 9.00s\n"

    monkeypatch.setattr(pysparks, "run", run)
    monkeypatch.setenv("JAVA25_HOME", "/java")
    for master, is_good in (("standalone", False), ("local", True)):
        cell = pysparks.Cell("4.3.0", 25, master)
        assert pysparks.tried(cell, SAMPLE, lambda _: None, records) is is_good
    assert commands[0] == ("make", "build/pyspark-4.3.0/ready")
    assert SAMPLE[0] in commands[1]
    assert json.loads(records.read_text()) == {
        "4.3.0/25/standalone": {
            "tests": "failed: 1 failed, 2 passed",
            "commit": f"{COMMIT}-dirty",
        },
        "4.3.0/25/local": {"tests": "3 passed", "commit": COMMIT},
    }
    pysparks.write(page, records)
    table = between(page.read_text(), pysparks.MARK).splitlines()[2:]
    assert [re.findall(r"\| (\S+) \| (\d+) \|", line)[0] for line in table] == [
        (version, str(java)) for version, javas in pysparks.RELEASES.items() for java in javas
    ]
    assert table[0] == "| 3.5.9 | 17 | not run | not run |"
    assert table[-1] == "| 4.3.0 | 25 | sample: 3 passed | sample: failed: 1 failed, 2 passed |"


def test_a_line_of_the_table_has_each_step_and_ends_at_a_failure(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n<!-- {airflow_releases.MARK} -->\n<!-- end of airflow -->\nafter\n")
    broken = airflow_releases.Outcome(version="3.1.8", steps=("passed",), failure="no module x | y")
    airflow_releases.write([broken, GOOD], page)
    table = between(page.read_text(), airflow_releases.MARK).splitlines()
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert table[2].startswith("| 3.1.8 | 2026-03-12 | none | passed | failed: no module x \\| y |")
    cells = "3.2.2 | 2026-06-04 | pyarrow 23.0.1 to 26.0.1 | passed | 9 imported | 17 parsed"
    assert table[3] == f"| {cells} | 5 passed |"
    assert (broken.is_good, GOOD.is_good) == (False, True)


def test_pins_are_made_for_airflow_and_for_what_we_need_without_our_bounds() -> None:
    first, *names = airflow_releases.wanted("3.1.8")
    assert first == "apache-airflow==3.1.8"
    assert {"apache-airflow-providers-apache-spark", "boto3", "pyarrow"} <= set(names)
    assert not any(character in name for name in names for character in "<>=")


def test_a_pin_that_was_raised_or_is_gone_is_listed() -> None:
    pins = {"rich": "13", "thrift": "1", "old": "2"}
    assert airflow_releases.changed(pins, {"rich": "14", "thrift": "1", "new": "1"}) == (
        "old 2 to nothing",
        "rich 13 to 14",
    )


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("3 failed, 5 passed, 2 skipped, 9 deselected in 1.20s", "3 failed, 5 passed, 2 skipped"),
        ("ImportError: no", ""),
    ],
)
def test_the_counts_of_pytest_are_read_from_its_last_line(line: str, found: str) -> None:
    assert steps.counts(line) == found


def test_a_failed_program_raises_its_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert steps.run(sys.executable, "-c", "print('a')") == "a\n"
    with pytest.raises(steps.StepError, match=r"^ValueError: no$"):
        steps.run(sys.executable, "-c", "raise ValueError('no')")
    assert "Traceback" in capsys.readouterr().err
