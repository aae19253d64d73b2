"""A part of what `make differential` does: generated questions, answered by Hive and by us."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.local.server import LocalMetastore
from tests.judges.engine import HiveJudge
from tests.proofs.differential import examples, stores, twins
from tests.proofs.differential.cases import Case, Outcome
from tests.proofs.differential.course import Course, made
from tests.proofs.differential.engines import Engines
from tests.proofs.differential.expressions import Node
from tests.proofs.differential.known import Entry, Example
from tests.support.spark_lab import Lab, make_lab

SEED: Final = 20
EXPRESSION_COUNT: Final = 60
STATEMENT_COUNT: Final = 8


@pytest.fixture(scope="module")
def prepared(
    spark: SparkSession, hive_metastore: LocalMetastore, hive_judge: HiveJudge
) -> Iterator[Engines]:
    """Both engines with the table of all questions, which no test changes."""
    for lab in make_lab(spark, hive_metastore):
        both = Engines(lab=lab, judge=hive_judge)
        both.prepare()
        yield both


@pytest.fixture
def engines(prepared: Engines) -> Iterator[Engines]:
    prepared.judge.execute(f"use {prepared.lab.db}")
    yield prepared
    prepared.judge.execute("use default")


def test_generated_expressions_have_the_same_values_as_in_hive(engines: Engines) -> None:
    findings = list(Course(engines, print).findings(made(EXPRESSION_COUNT, SEED)))
    assert [f.seen[:2] for f in findings if f.outcome is Outcome.DIFFERENT] == []
    assert len(findings) == EXPRESSION_COUNT
    equal = [f for f in findings if f.outcome in {Outcome.EQUAL, Outcome.ERROR}]
    assert len(equal) > EXPRESSION_COUNT / 2
    planted = Case(Node("planted", "if({n} = 2, 'seen', 'not')", "S", (Node("atom", "n", "I"),)))
    (found,) = _with_a_planted_difference(engines, planted)
    assert (found.outcome, found.seen[0].row) == (Outcome.DIFFERENT, 1)


@pytest.mark.parametrize(
    "choose",
    [examples.one_of_its_tables, pytest.param(examples.all_of, marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_the_examples_of_the_known_differences_have_the_documented_answers(
    engines: Engines, choose: Callable[[Entry], Sequence[Example]]
) -> None:
    assert list(examples.missed(engines, choose)) == []


def _with_a_planted_difference(engines: Engines, case: Case) -> list[object]:
    class Wrong(Engines):
        def ask_us(self, expressions: list[str], form: object) -> list[object]:
            wrong = [e.replace("'seen'", "'something else'") for e in expressions]
            return super().ask_us(wrong, form)

    course = Course(Wrong(lab=engines.lab, judge=engines.judge), print)
    return list(course.findings([case]))


def test_generated_statements_leave_the_same_rows_as_in_hive(
    lab4: Lab, hive_judge: HiveJudge
) -> None:
    theirs = f"hive_{uuid.uuid4().hex[:12]}"
    lab4.client.create_database(theirs)
    engines = Engines(lab=lab4, judge=hive_judge)
    done = list(twins.Twins(engines, theirs, SEED).done(STATEMENT_COUNT, print))
    assert [one for one in done if one.outcome is Outcome.DIFFERENT] == []
    assert sum(one.outcome is Outcome.EQUAL for one in done) > STATEMENT_COUNT / 2
    hive_judge.execute("use default")


@pytest.mark.long
def test_values_are_stored_in_columns_of_a_different_type_as_in_hive(engines: Engines) -> None:
    done = list(stores.stored(engines, ["bigint"]))
    assert [one for one in done if one.outcome is Outcome.DIFFERENT] == []
    assert sum(one.outcome is Outcome.EQUAL for one in done) > 5
