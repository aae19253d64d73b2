"""Parameters: their markers in SQL text, the types of their values, and their JSON in a job."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.plan.arguments import EarlyChecks
from airflow_hiveacid.plan.statements import parameters
from tests.support.cases import changes_of

_CASES: Final = Path(__file__).parent / "cases"
NAIVE = dt.datetime(2026, 1, 31, 2, 0, 0, 500_000)  # noqa: DTZ001 - a wall clock
AWARE = NAIVE.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))
TWICE = dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Vienna"))
"""A time that a clock shows twice, as summer time ends; `fold` tells which of the two it is."""
MOMENT = "timestamp with local time zone"


class Level(enum.IntEnum):
    HIGH = 3


class Colour(enum.StrEnum):
    RED = "r"


class Stamp(dt.datetime):
    """As that of pandas, with more digits of a second."""

    nanosecond = 0

    def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:
        return f"{super().isoformat(sep, timespec)}{self.nanosecond:03d}"


class FineStamp(Stamp):
    nanosecond = 7


class NoStamp(dt.datetime):
    """As pandas.NaT, which is a datetime without a date."""

    year = float("nan")  # type: ignore[assignment]
    nanosecond = float("nan")

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = dt.datetime.__hash__


STAMP = Stamp.combine(NAIVE.date(), NAIVE.time())


def _read(cases: Iterable[tuple[str, str | None]]) -> list[tuple[object, str | None]]:
    """Return the cases with the values that their texts are as JSON."""
    return [(json.loads(text), expected) for text, expected in cases]


@pytest.mark.parametrize(("text", "names"), [*changes_of(_CASES / "markers.txt"), ("", None)])
def test_a_marker_is_a_colon_and_a_name_outside_quotes_and_comments(
    text: str, names: str | None
) -> None:
    assert ", ".join(sorted(parameters.markers(text))) == (names or "")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *_read(changes_of(_CASES / "parameter_values.txt")),
        (Decimal("1E+3"), "decimal '1000'"),
        (Decimal("1.50"), "decimal '1.5'"),
        (Decimal("1.050"), "decimal '1.05'"),
        (Decimal("0E-999999999"), "decimal '0'"),
        (dt.date(2026, 1, 31), "date '2026-01-31'"),
        (NAIVE, "timestamp '2026-01-31 02:00:00.500000'"),
        (STAMP, "timestamp '2026-01-31 02:00:00.500000'"),
        (Level.HIGH, "int '3'"),
        (Colour.RED, "string 'r'"),
        ((1,), "(int '1')"),
        ({"type": MOMENT, "value": AWARE}, f"{MOMENT} '2026-01-31 00:00:00.500000Z'"),
        ({"type": MOMENT, "value": TWICE}, f"{MOMENT} '2026-10-25 00:30:00Z'"),
        ({"type": MOMENT, "value": TWICE.replace(fold=1)}, f"{MOMENT} '2026-10-25 01:30:00Z'"),
    ],
)
def test_a_value_has_one_type_and_one_spelling(value: object, said: str) -> None:
    assert parameters.read_parameters({"p": value})["p"].said == said


@pytest.mark.parametrize(
    ("value", "why"),
    [
        *_read(changes_of(_CASES / "refused_parameters.txt")),
        (AWARE, "has a time zone"),
        ({"type": MOMENT, "value": NAIVE}, "has no time zone"),
        ({"type": "date", "value": NAIVE}, "is not a valid date"),
        (Decimal("NaN"), "is not a valid decimal"),
        (Decimal(1).scaleb(-39), "is not a valid decimal"),
        (b"x", "is a bytes"),
        (
            [1, 10**5000],
            r"is not a valid int: found .* more digits .*; give a whole number of at most 38",
        ),
        ({"type": "decimal", "value": 10**5000}, "is not a valid decimal: .*; give a number"),
        ({"type": "double", "value": 10**5000}, "is not a valid double: .*; give a finite number"),
        ({"type": "x", "value": 10**5000}, "with one of the types"),
        ({"type": "int", "value": "9" * 10_000}, r"is not a valid int: found '9{99}\.\.\.; give"),
        (FineStamp.combine(NAIVE.date(), NAIVE.time()), "has nanoseconds.*; truncate"),
        (NoStamp.combine(NAIVE.date(), NAIVE.time()), "is not a valid timestamp: .*; give a time"),
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_its_parameter(
    value: object, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        parameters.read_parameters({"p": value})
    assert "parameters['p']" in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("name", ["1a", "a-b", "", "ä", 5])
def test_a_parameter_name_is_letters_digits_and_underscores(name: object) -> None:
    with pytest.raises(ConfigurationError, match="not a valid parameter name"):
        parameters.read_parameters({name: 1})
    with pytest.raises(ConfigurationError, match="names that begin with __hiveacid are reserved"):
        parameters.read_parameters({"__hiveacid_0_0": 1})
    with pytest.raises(ConfigurationError, match="must map names to values"):
        parameters.read_parameters([1])


def test_each_sql_text_gets_only_the_parameters_that_it_uses() -> None:
    query = statements.SourceSpec(tables={}, query="SELECT :q AS id")
    insert = statements.InsertSpec(target="d.t", source=query)
    merge = statements.MergeSpec(
        target="d.t",
        source=query,
        keys=("id",),
        condition="t.a = :c",
        clauses=(
            statements.MergeClause(
                when=statements.MergeWhen.MATCHED,
                action=statements.MergeAction.UPDATE,
                condition="s.a > :d",
                set={"a": ":e"},
            ),
            statements.MergeClause(
                when=statements.MergeWhen.NOT_MATCHED,
                action=statements.MergeAction.INSERT,
                values=("s.id", ":f"),
            ),
        ),
    )
    several = statements.TransactionSpec(
        statements=(
            merge,
            statements.UpdateSpec(target="d.t", set={"a": ":u"}, where="a = :c"),
            statements.DeleteSpec(target="d.t", where="b = :w"),
            statements.MultiInsertSpec(inserts=(insert,), shared={"v": "SELECT :m"}),
        )
    )
    found = parameters.job_with(several, {name: name for name in "qcdefuwm"})
    merged, updated, deleted, inserted = found.statements
    assert isinstance(merged, statements.MergeSpec)
    assert set(merged.source.parameters) == {"q"}
    assert set(merged.parameters) == set("cdef")
    assert isinstance(updated, statements.UpdateSpec)
    assert set(updated.parameters) == set("uc")
    assert isinstance(deleted, statements.DeleteSpec)
    assert set(deleted.parameters) == set("w")
    assert isinstance(inserted, statements.MultiInsertSpec)
    assert set(inserted.parameters) == {"m"}
    assert set(inserted.inserts[0].source.parameters) == {"q"}


def test_a_given_value_replaces_only_the_parameter_with_its_name() -> None:
    own = parameters.read_parameters({"a": "later", "b": "b"})
    source = statements.SourceSpec(tables={}, query="SELECT :a, :b", parameters=own)
    found = parameters.job_with(statements.InsertSpec(target="d.t", source=source), {"a": 1})
    assert {name: one.said for name, one in found.source.parameters.items()} == {
        "a": "int '1'",
        "b": "string 'b'",
    }


def test_unused_parameters_and_markers_without_a_value_are_refused() -> None:
    delete = statements.DeleteSpec(target="d.t", where="a = :a AND b = :b")
    with pytest.raises(ConfigurationError, match=r"for :b, which the SQL uses; given are a"):
        parameters.job_with(delete, {"a": 1})
    with pytest.raises(ConfigurationError, match=r"parameters\['c'\] is not used in any SQL text"):
        parameters.job_with(delete, {"a": 1, "b": 2, "c": 3})


def spec_of(job: statements.DeleteSpec | statements.UpdateSpec) -> JobSpec:
    return JobSpec(job_key="k", metastore=MetastoreEndpoint(uris=("thrift://h:1",)), job=job)


def test_parameter_types_survive_json_and_change_the_digest() -> None:
    where = "a IN (:a) AND b = :b AND c = :c AND d = :d"
    given = {"a": [1, Decimal("1.50"), None], "b": dt.date(2026, 1, 31), "c": NAIVE, "d": 1.5}
    sent = spec_of(parameters.job_with(statements.DeleteSpec(target="d.t", where=where), given))
    assert JobSpec.parse(sent.dump()) == sent
    digests = set()
    for value in (1, "1", Decimal(1), True, 1.0, None, [1], [1, 1], "2026-01-31", given["b"]):
        job = parameters.job_with(statements.DeleteSpec(target="d.t", where="a = :a"), {"a": value})
        digests.add(spec_of(job).statement["parameters"])
    assert len(digests) == 10
    assert "parameters" not in spec_of(statements.DeleteSpec(target="d.t", where="a = 1")).statement


def test_parameters_without_templates_are_checked_when_the_dag_is_parsed() -> None:
    early = EarlyChecks("task")
    parameters.check_early(early, {"a": {"type": "date", "value": "{{ ds }}"}}, ["a = :a"])
    parameters.check_early(early, {"a": 1}, ["a = :a {{ more }}"])
    parameters.check_early(early, {"a": "{{ a }}", "b": 1}, [None, "x = :a", ":b"])
    parameters.check_early(early, {}, [":b"], others={"b": 1})
    with pytest.raises(ConfigurationError, match="is not a valid date"):
        parameters.check_early(
            early, {"a": {"type": "date", "value": "x"}, "b": "{{ b }}"}, ["{{ c }}"]
        )
    with pytest.raises(ConfigurationError, match=r"parameters\['b'\] is not used in any SQL text"):
        parameters.check_early(early, {"a": "{{ a }}", "b": "{{ b }}"}, ["a = :a"])
    with pytest.raises(ConfigurationError, match=r"no value for :b"):
        parameters.check_early(early, {}, ["b = :b"])
    with pytest.raises(ConfigurationError, match="must map names"):
        parameters.check_early(early, None, [])
