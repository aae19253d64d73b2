"""The tables of docs/reference/versions.md, and what their runs take."""

from __future__ import annotations

from airflow_hiveacid.supported_versions import JAVA, PYSPARK
from tests.proofs.versions import airflow_releases, metastores, pysparks
from tests.support.documents import ROOT, between


def test_the_page_names_every_minor_that_the_run_tries() -> None:
    minors = ", ".join(version.rpartition(".")[0] for version in airflow_releases.RELEASES)
    assert f"| Airflow | {minors} |" in airflow_releases.PAGE.read_text()
    for program in (airflow_releases, metastores, pysparks):
        between(program.PAGE.read_text(), program.MARK)


SAMPLE = ("tests/spark/test_a.py",)
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
