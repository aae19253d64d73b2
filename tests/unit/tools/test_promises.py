"""The meter: what counts as proof, and when it ends with a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.promises import main, read_evidence, read_promises

_CASE = """<testcase classname="tests.x" name="{name}">
<properties><property name="promise" value="{promise}"/></properties>{body}</testcase>"""
_DOCUMENT = "| T1 | One | 0.1.0 |\n| T2 | Two | 0.1.0 |\n| T9 | Later |  |\n"
_SKIPPED = '<skipped message="no"/>'
_FAILED = '<failure message="no"/>'


def case(promise: str, name: str = "test_a", body: str = "") -> str:
    return _CASE.format(promise=promise, name=name, body=body)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "evidence").mkdir(parents=True)
    (tmp_path / "docs" / "evidence" / "promises.md").write_text(_DOCUMENT)
    (tmp_path / "build").mkdir()
    return tmp_path


def ran(project: Path, *cases: str) -> int:
    """The meter's exit status after a run with these results."""
    file = project / "build" / "junit-spark.xml"
    file.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return main([], root=project)


@pytest.mark.parametrize(
    "others",
    [
        (),
        (case("T2", body=_SKIPPED),),
        (case("T2", body=_FAILED),),
        (case("T2"), case("T2", "test_b", _FAILED)),
        (case("T2"), case("T2", "test_b", "<error/>")),
    ],
    ids=["no test", "skipped", "failed", "passed and failed", "passed and broken"],
)
def test_the_exit_status_is_1_if_a_due_promise_has_no_passed_or_a_failed_test(
    project: Path, others: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(project, case("T1"), *others) == 1
    assert capsys.readouterr().out.endswith("open: T2\n")


@pytest.mark.parametrize("others", [(), (case("T2", "test_b", _SKIPPED),)])
def test_one_passed_test_of_each_due_promise_is_enough(
    project: Path, others: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(project, case("T1"), case("T2"), *others) == 0
    assert "T9" not in capsys.readouterr().out
    assert main(["--all"], root=project) == 0
    assert "T9   later  no test  Later" in capsys.readouterr().out


def test_without_results_the_exit_status_is_1_and_the_error_names_make_test(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], root=project) == 1
    assert "make test" in capsys.readouterr().err


def test_the_results_of_both_environments_are_combined(project: Path) -> None:
    for name, promise in (("spark", "T1"), ("airflow", "T2")):
        text = f"<testsuites>{case(promise)}</testsuites>"
        (project / "build" / f"junit-{name}.xml").write_text(text)
    found = read_evidence(sorted((project / "build").iterdir()))
    assert {name: proof.result for name, proof in found.items()} == {"T1": "passed", "T2": "passed"}


def test_every_promise_of_the_document_is_read() -> None:
    file = Path(__file__).parents[3] / "docs" / "evidence" / "promises.md"
    promises, _, taken_back = file.read_text().partition("## Taken back")
    rows = [line for line in promises.splitlines() if line.startswith("| ")]
    known = read_promises(file)
    reasons = {line.split()[1] for line in taken_back.splitlines() if line.startswith("| ")}
    assert reasons - {"id"} <= {p.id for p in known if not p.since}
    assert len(known) == sum(not row.startswith("| id |") for row in rows)
    assert len({p.id for p in known}) == len(known)
