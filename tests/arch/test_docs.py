"""Links of the documentation lead somewhere, and each decision page has its parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.jobs.job import JobResult, JobStatus, RowCounts, StatementResult
from airflow_hiveacid.jobs.short_form import short_form
from airflow_hiveacid.maintenance.clean import CleaningOutcome
from airflow_hiveacid.maintenance.clean_tables import CleanedTable
from airflow_hiveacid.maintenance.compaction_facts import CompactionOutcome
from airflow_hiveacid.plan.conversion import ConversionOutcome
from airflow_hiveacid.plan.rebalancing import RebalancedPartition
from airflow_hiveacid.plan.restoring import RestoredPartition, Way
from airflow_hiveacid.plan.thresholds import DueDirectory, TableHealth
from tests.support.results_page import fields_in_the_page
from tools import errors_page

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "airflow_hiveacid"
DECISIONS = ROOT / "docs" / "decisions"
PAGES = sorted(page for page in DECISIONS.glob("*.md") if page.name != "README.md")
TEXTS = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "RELEASING.md",
    ROOT / "SECURITY.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
SECTIONS = ["Rules", "A change violates this when", "Why", "Tried and dropped"]
CODE = ("airflow_hiveacid", "spark_apps", "dags", "demo", "tests", "tools")

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_MODULE = re.compile(r"`([a-z0-9_/]+(?:\.py|/))`")
_CITED = re.compile(r"(?<![\w/])docs/[\w./-]*\w")


def prose_of(page: Path) -> str:
    """Return the text of a page without its examples."""
    return _FENCED.sub("", page.read_text())


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    titles = (re.sub(r"[`*]", "", title).lower() for title in _HEADING.findall(prose_of(page)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page to files, or headings, of the repository that are not there."""
    broken = []
    for link in _LINK.findall(prose_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


def is_there(name: str) -> bool:
    """Tell whether a file is below the root or the package, or has this bare name there."""
    if "/" not in name:
        return any(PACKAGE.rglob(name))
    return (ROOT / name).exists() or (PACKAGE / name).exists()


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_to_a_file_of_the_repository_resolves(page: Path) -> None:
    assert broken_links(page) == []


def test_each_page_that_the_code_names_exists() -> None:
    files = [file for folder in CODE for file in (ROOT / folder).rglob("*.py")]
    named = {name for file in files for name in _CITED.findall(file.read_text())}
    assert "docs/decisions/ledger.md" in named
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("folder", ["tutorial", "how-to", "operations", "concepts"])
def test_a_page_for_users_has_one_question_and_at_most_800_words(folder: str) -> None:
    pages = sorted((ROOT / "docs" / folder).glob("*.md"))
    assert pages
    words = {page.name: len(page.read_text().split()) for page in pages}
    assert {name: count for name, count in words.items() if count > 800} == {}


def test_the_index_leads_to_each_page() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {
        (index.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(prose_of(index))
    }
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent != DECISIONS}
    assert pages - listed == {index}


def test_the_index_names_each_decision_page_once() -> None:
    index = _LINK.findall((DECISIONS / "README.md").read_text())
    assert sorted(index) == [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_page_has_the_required_sections(page: Path) -> None:
    text = page.read_text()
    head, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, rule = head.partition("\n")
    assert title.startswith("# ")
    assert rule.strip()
    assert [part.partition("\n")[0] for part in parts] == SECTIONS
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", parts[0], re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 1
    assert all(re.search(r"^- ", part, re.MULTILINE) for part in parts[1:])
    assert [line for line in text.splitlines() if len(line) > 120] == []


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *PAGES], ids=lambda page: page.stem)
def test_each_module_and_test_that_a_page_about_the_code_names_exists(page: Path) -> None:
    named = set(_MODULE.findall(page.read_text()))
    assert named
    assert {name for name in named if not is_there(name)} == set()


def test_each_code_name_in_the_glossary_exists_in_the_code() -> None:
    code = "\n".join(file.read_text() for file in PACKAGE.rglob("*.py"))
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(named) > 40
    assert {name for name in named if not re.search(rf"\b{name}\b", code)} == set()


def test_the_page_of_errors_is_up_to_date_with_the_error_classes() -> None:
    assert errors_page.PAGE.read_text() == "\n".join(errors_page.lines()) + "\n"


def test_the_page_of_errors_has_every_class_of_the_package() -> None:
    code = "\n".join(file.read_text() for file in PACKAGE.rglob("*.py"))
    classes = re.findall(r"^class (\w+)\((.+)\):$", code, re.MULTILINE)
    listed = set(re.findall(r"^\| `(\w+)`", errors_page.PAGE.read_text(), re.MULTILINE))
    ours = {name for name, bases in classes if listed & set(re.findall(r"\w+", bases))}
    assert {name for name in ours - listed if not name.startswith("_")} == set()


_RESULTS = {
    "Job": JobResult(kind="merge", job_key="k", status=JobStatus.COMMITTED, table="db.t"),
    "Statement": StatementResult(kind="merge", table="db.t", rows=RowCounts()),
    "Restored partition": RestoredPartition(how=Way.DELTA, come=1, go=1, stay=1),
    "Rebalanced partition": RebalancedPartition(
        is_due=True, why="", files=1, new_files=2, size_bytes=3
    ),
    "Compaction": CompactionOutcome(partition="", done=True, kind="major", why=""),
    "Cleaning": CleaningOutcome(partition="", removed=(), kept=()),
    "Cleaning of many tables": CleanedTable(
        table="db.t",
        partitions=1,
        removed=1,
        removed_bytes=1,
        kept=0,
        kept_bytes=0,
        why_kept="",
    ),
    "Conversion": ConversionOutcome(before="flat", after="full_acid", done=True, steps=()),
    "Due partition": DueDirectory(health=TableHealth(table="db.t", location="/t"), reached=()),
}
_ADDED = {"Job": {"result_uri"}}


@pytest.mark.parametrize("section", _RESULTS)
def test_the_page_of_results_lists_the_fields_of_the_result_classes(section: str) -> None:
    one = _RESULTS[section]
    record = one.record() if isinstance(one, DueDirectory) else to_json(one)
    assert isinstance(record, dict)
    assert fields_in_the_page(section) == short_form(record).keys() | _ADDED.get(section, set())
