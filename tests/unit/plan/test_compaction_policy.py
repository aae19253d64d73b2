from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.maintenance import CompactSpec, Off
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.compaction_policy import (
    COUNT_PARAMETER,
    RATIO_PARAMETER,
    GivenThresholds,
)
from airflow_hiveacid.plan.statements.text import statement_text
from airflow_hiveacid.plan.thresholds import CompactionPolicy, TableHealth, Threshold, exceeded
from tests.support.cases import results_of

_CASES: Final = Path(__file__).parent / "cases"
_COUNT = "compactorthreshold.hive.compactor.delta.num.threshold"
_RATIO = "compactorthreshold.hive.compactor.delta.pct.threshold"
_NO_OTHER = {"aborted_transactions": Off.OFF}


def _table(**parameters: str) -> TableInfo:
    return TableInfo(ref=TableRef("db", "t"), location="/t", columns=(), parameters=parameters)


def _own(count: str = "5", ratio: str = "0.5") -> TableInfo:
    return _table(**{_COUNT: count, _RATIO: ratio})


def test_without_any_setting_the_defaults_apply() -> None:
    assert GivenThresholds().policy_for(_table()) == CompactionPolicy()


def test_the_parameters_have_the_names_that_hive_reads() -> None:
    assert (COUNT_PARAMETER, RATIO_PARAMETER) == (_COUNT, _RATIO)


def test_a_tables_own_thresholds_replace_the_defaults() -> None:
    assert GivenThresholds().policy_for(_own()) == CompactionPolicy(
        delta_count=5,
        delta_ratio=0.5,
        count_origin=f"table parameter {_COUNT}",
        ratio_origin=f"table parameter {_RATIO}",
    )


def test_thresholds_of_the_task_replace_those_of_the_table() -> None:
    given = GivenThresholds(delta_count=3, delta_ratio=0.25)
    assert given.policy_for(_own()) == CompactionPolicy(delta_count=3, delta_ratio=0.25)


def test_each_threshold_is_chosen_independently() -> None:
    policy = GivenThresholds(delta_count=3).policy_for(_own())
    assert (policy.delta_count, policy.count_origin) == (3, "")
    assert (policy.delta_ratio, policy.ratio_origin) == (0.5, f"table parameter {_RATIO}")
    only_count = GivenThresholds().policy_for(_table(**{_COUNT: "7"}))
    assert (only_count.delta_count, only_count.delta_ratio) == (7, 0.1)


def test_a_threshold_that_is_off_does_not_apply_even_if_the_table_sets_it() -> None:
    without_ratio = GivenThresholds(delta_ratio=Off.OFF).policy_for(_own())
    assert (without_ratio.delta_count, without_ratio.delta_ratio) == (5, None)
    without_count = GivenThresholds(delta_count=Off.OFF).policy_for(_own())
    assert (without_count.delta_count, without_count.delta_ratio) == (None, 0.5)


def test_parameters_in_a_different_letter_case_have_no_effect_as_in_hive() -> None:
    table = _table(**{_COUNT.upper(): "5", _RATIO.title(): "0.5"})
    assert GivenThresholds().policy_for(table) == CompactionPolicy()


@pytest.mark.parametrize("text", ["", "ten", "0", "-5", "2.5", "1_0", "9" * 5000])
def test_an_invalid_count_of_the_table_is_reported_and_the_default_applies(text: str) -> None:
    policy = GivenThresholds().policy_for(_own(count=text))
    assert (policy.delta_count, policy.delta_ratio, policy.count_origin) == (10, 0.5, "")
    (complaint,) = policy.warnings
    assert complaint.startswith(f"db.t: table parameter {_COUNT}={text[:60]!r} is not a whole")
    assert complaint.endswith(
        "number of 1 or more, so the default 10 applies; correct the parameter or unset it"
    )


@pytest.mark.parametrize("text", ["", "ten", "0", "-0.5", "1.01", "10", "nan", "inf", "0.1_0"])
def test_an_invalid_ratio_of_the_table_is_reported_and_the_default_applies(text: str) -> None:
    policy = GivenThresholds().policy_for(_own(ratio=text))
    assert (policy.delta_count, policy.delta_ratio, policy.ratio_origin) == (5, 0.1, "")
    (complaint,) = policy.warnings
    assert complaint == (
        f"db.t: table parameter {_RATIO}={text!r} is not a number above 0 and at most 1, so the"
        " default 0.1 applies; correct the parameter or unset it"
    )


def test_an_invalid_parameter_is_not_reported_if_it_has_no_effect() -> None:
    table = _own(count="ten", ratio="ten")
    assert GivenThresholds(delta_count=3, delta_ratio=Off.OFF).policy_for(table).warnings == ()


@pytest.mark.parametrize(("deltas", "is_due"), [(4, False), (5, True)])
def test_a_tables_own_count_is_reached_as_the_default_is(deltas: int, is_due: bool) -> None:
    health = TableHealth(table="db.t", location="/t", deltas=deltas)
    assert bool(exceeded(health, GivenThresholds().policy_for(_own()))) is is_due


def test_the_reason_names_the_parameter_that_sets_a_threshold() -> None:
    health = TableHealth(table="db.t", location="/t", base_bytes=100, deltas=5, delta_bytes=50)
    assert [str(one) for one in exceeded(health, GivenThresholds().policy_for(_own()))] == [
        f"deltas hold 50.0 % of the base (threshold 50.0 % by table parameter {_RATIO})",
        f"5 delta directories (threshold 5 by table parameter {_COUNT})",
    ]


@pytest.mark.parametrize(("text", "policy", "words"), results_of(_CASES / "thresholds.txt"))
def test_thresholds_are_told_by_their_policy_and_by_the_statement_of_a_compaction(
    text: str, policy: str, words: str
) -> None:
    asked = json.loads(text)
    given = arguments.thresholds(
        asked.get("delta_count"), asked.get("delta_ratio"), asked.get("also_when")
    )
    assert str(given.policy_for(_table(**{_COUNT: "5"}))) == policy
    spec = CompactSpec.of_table(
        "db.t",
        delta_count=given.delta_count,
        delta_ratio=given.delta_ratio,
        also_when=given.also_when,
    )
    assert statement_text(spec) == f"ALTER TABLE db.t COMPACT 'minor' -- or 'major', at {words}"


@pytest.mark.parametrize("word", ["off", " OFF ", Off.OFF])
def test_off_is_a_value_of_both_arguments(word: str) -> None:
    assert arguments.delta_count(word, "delta_count") is Off.OFF
    assert arguments.delta_ratio(word, "delta_ratio") is Off.OFF


def test_the_plain_values_of_thresholds_give_the_same_thresholds_again() -> None:
    for given in (
        GivenThresholds(),
        GivenThresholds(delta_count=3, delta_ratio=Off.OFF),
        GivenThresholds(delta_count=Off.OFF, delta_ratio=0.5),
        GivenThresholds(also_when={**_NO_OTHER, "small_files": 200, "oldest_delta_s": 0.5}),
        GivenThresholds(delta_count=Off.OFF, delta_ratio=Off.OFF, also_when={"small_files": 200}),
    ):
        plain = given.plain()
        assert json.loads(json.dumps(plain)) == plain
        assert arguments.thresholds(*plain.values()) == given


@pytest.mark.parametrize(
    ("count", "ratio", "why"),
    [
        (0, None, "delta_count must be 1 or more"),
        (None, 10, "For 10 %, use 0.1"),
        ("ten", None, "delta_count must be a whole number"),
        ("off", "off", "delta_count and delta_ratio are both off"),
        (False, None, "delta_count must be a whole number"),  # what YAML makes of `off`
        pytest.param(10**5000, None, "found a number with more digits", id="long count"),
        pytest.param(None, 10**5000, "found a number with more digits", id="long ratio"),
    ],
)
def test_invalid_thresholds_of_a_task_are_refused(count: object, ratio: object, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        arguments.thresholds(count, ratio)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        {"small_files": 200, "oldest_delta_s": 0.5, "aborted_transactions": "off"},
        {"small_files": "200", "oldest_delta_s": "0.5", "aborted_transactions": " OFF "},
        "small_files=200, oldest_delta_s = 0.5,aborted_transactions=off",
    ],
)
def test_further_thresholds_are_a_mapping_or_a_string(value: object) -> None:
    found = arguments.also_when(value, "also_when")  # type: ignore[arg-type]
    assert found == {"small_files": 200, "oldest_delta_s": 0.5, "aborted_transactions": Off.OFF}


@pytest.mark.parametrize("nothing", [None, "", {}])
def test_without_further_thresholds_only_aborted_transactions_count(nothing: object) -> None:
    given = arguments.thresholds(None, None, nothing)  # type: ignore[arg-type]
    assert given.also_limits == {Threshold.ABORTED_TRANSACTIONS: 1000}
    assert not given.counts_rows
    assert arguments.thresholds(None, None, {"deleted_rows": 1}).counts_rows


@pytest.mark.parametrize(
    ("value", "why"),
    [
        *((json.loads(text), why) for text, why in results_of(_CASES / "refused_thresholds.txt")),
        ({"oldest_delta_s": float("nan")}, "oldest_delta_s in also_when must be a number"),
        ({"small_files": 10**5000}, "small_files in also_when must be a number of 0 or more"),
        ({3: 4}, "also_when has no threshold 3"),
    ],
)
def test_invalid_further_thresholds_are_refused(value: object, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        arguments.also_when(value, "also_when")  # type: ignore[arg-type]
