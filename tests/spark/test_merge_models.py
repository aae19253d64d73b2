"""MERGE, UPDATE and DELETE against a model that goes through the rows one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_hiveacid.jobs.statements import MergeAction, MergeClause, MergeWhen
from airflow_hiveacid.spark.statements import merge as merge_module
from airflow_hiveacid.writing import event_files
from tests.support.spark_lab import Lab

Row = dict[str, Any]
Truth = bool | None
TARGET = ("id", "v", "p")
SOURCE = ("id", "v", "p", "op")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A clause, twice: as Spark SQL and as Python over one target row and one source row."""

    when: MergeWhen
    action: MergeAction
    text: str | None = None
    holds: Callable[[Row, Row], Truth] = lambda _t, _s: True
    set: Mapping[str, tuple[str, Callable[[Row, Row], Any]]] | None = None

    @property
    def clause(self) -> MergeClause:
        assignments = None if self.set is None else {n: text for n, (text, _) in self.set.items()}
        return MergeClause(when=self.when, action=self.action, condition=self.text, set=assignments)


def modelled(
    target: Sequence[Row],
    source: Sequence[Row],
    keys: Sequence[str],
    rules: Sequence[Rule],
    on: Callable[[Row, Row], Truth] = lambda _t, _s: True,
) -> list[Row]:
    """What MERGE leaves, row by row."""
    result = []
    hit: set[int] = set()
    for t in target:
        acts = 0
        new: Row | None = t
        partners = [
            (i, s)
            for i, s in enumerate(source)
            if all(t[k] is not None and t[k] == s[k] for k in keys) and on(t, s)
        ]
        hit.update(i for i, _ in partners)
        when = MergeWhen.MATCHED if partners else MergeWhen.NOT_MATCHED_BY_SOURCE
        for s in [s for _, s in partners] or [{}]:
            rule = next((r for r in rules if r.when is when and r.holds(t, s)), None)
            if rule is not None:
                acts += 1
                new = None if rule.action is MergeAction.DELETE else _changed(rule, t, s)
        assert acts <= 1, "the case itself is no valid MERGE"
        result.extend([new] if new is not None else [])
    for i, s in enumerate(source):
        rule = next((r for r in rules if r.when is MergeWhen.NOT_MATCHED and r.holds({}, s)), None)
        if i not in hit and rule is not None:
            result.append({n: s.get(n) for n in TARGET} if rule.set is None else _new(rule, s))
    return result


def _changed(rule: Rule, t: Row, s: Row) -> Row:
    if rule.set is None:
        return {n: s.get(n, t[n]) if n != "p" else t[n] for n in t}
    return {**t, **{n: value(t, s) for n, (_, value) in rule.set.items()}}


def _new(rule: Rule, s: Row) -> Row:
    assert rule.set is not None
    return {n: rule.set[n][1]({}, s) if n in rule.set else None for n in TARGET}


def ordered(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in rows), key=lambda r: [(v is None, v) for v in r])


def table_of(lab: Lab, name: str, rows: Sequence[Row], *, partitioned: bool) -> None:
    columns = {"id": "bigint", "v": "string"}
    partition = {"p": "int"}
    lab.table(
        name,
        columns if partitioned else {**columns, **partition},
        partition=partition if partitioned else None,
    )
    lab.insert(name, [tuple(r.values()) for r in rows], TARGET)


def rows_of(names: Sequence[str], *rows: tuple[Any, ...]) -> list[Row]:
    return [dict(zip(names, row, strict=True)) for row in rows]


TARGET_ROWS = rows_of(
    TARGET,
    *[(i, f"v{i}", i % 3) for i in range(9)],
    (None, "no key", 1),
    (20, None, 2),
)
SOURCE_ROWS = rows_of(
    SOURCE,
    (0, "s0", 0, "U"),
    (1, "s1", 1, "D"),
    (2, None, 2, "U"),
    (3, "s3", 0, None),
    (4, "s4", 2, "U"),
    (4, "s4", 2, "X"),
    (20, "s20", 2, "U"),
    (30, "s30", 0, "I"),
    (30, "s30", 0, "I"),
    (31, None, 5, None),
    (None, "none", 1, "I"),
)


def is_op(op: str) -> Callable[[Row, Row], Truth]:
    return lambda _t, s: None if s["op"] is None else s["op"] == op


MATCHED = (
    Rule(
        when=MergeWhen.MATCHED,
        action=MergeAction.DELETE,
        text="s.op = 'D'",
        holds=is_op("D"),
    ),
    Rule(
        when=MergeWhen.MATCHED,
        action=MergeAction.UPDATE,
        text="s.op = 'U'",
        holds=is_op("U"),
        set={
            "v": ("concat(t.v, s.v)", lambda t, s: t["v"] + s["v"] if t["v"] and s["v"] else None)
        },
    ),
)
NEW = Rule(
    when=MergeWhen.NOT_MATCHED,
    action=MergeAction.INSERT,
    text="s.op = 'I'",
    holds=is_op("I"),
)
GONE_DELETE = Rule(
    when=MergeWhen.NOT_MATCHED_BY_SOURCE,
    action=MergeAction.DELETE,
    text="t.v > 'v6'",
    holds=lambda t, _s: None if t["v"] is None else t["v"] > "v6",
)
GONE_UPDATE = Rule(
    when=MergeWhen.NOT_MATCHED_BY_SOURCE,
    action=MergeAction.UPDATE,
    set={"v": ("concat('gone ', v)", lambda t, _s: None if t["v"] is None else f"gone {t['v']}")},
)
RULES = {
    "update": (*MATCHED, NEW, GONE_UPDATE),
    "delete": (GONE_DELETE,),
    "both": (*MATCHED, GONE_DELETE, GONE_UPDATE, NEW),
    "none": (*MATCHED, NEW),
}
SAME_P = ("t.p = s.p AND t.p < 2", lambda t, s: t["p"] == s["p"] and t["p"] < 2)
MAYBE = ("s.v <> 's0' AND t.p < 2", lambda t, s: s["v"] and s["v"] != "s0" and t["p"] < 2)


@pytest.mark.promise("W6")
@pytest.mark.parametrize("partitioned", [True, False], ids=["partitioned", "plain"])
@pytest.mark.parametrize(
    ("rules", "on"),
    [("update", None), ("delete", MAYBE), ("both", SAME_P), ("none", MAYBE)],
    ids=["gone are updated", "gone are deleted", "gone are either", "gone stay"],
)
@pytest.mark.long_cases("*-plain", "gone are deleted-*", "gone stay-*")
def test_a_merge_leaves_the_rows_of_the_model(
    lab4: Lab,
    rules: str,
    on: tuple[str, Any] | None,
    monkeypatch: pytest.MonkeyPatch,
    *,
    partitioned: bool,
) -> None:
    table_of(lab4, "t", TARGET_ROWS, partitioned=partitioned)
    if partitioned == (rules in ("update", "none")):
        monkeypatch.setattr(event_files, "MOST_EVENTS", 0)  # written by tasks
    chosen = RULES[rules]
    expected = modelled(
        TARGET_ROWS, SOURCE_ROWS, ["id"], chosen, *([on[1]] if on is not None else [])
    )
    lab4.merge(
        "t",
        [tuple(r.values()) for r in SOURCE_ROWS],
        SOURCE,
        ["ID"],
        [rule.clause for rule in chosen],
        condition=None if on is None else on[0],
    )
    assert ordered(lab4.rows("t")) == ordered([r.values() for r in expected])


@pytest.mark.promise("W6")
@pytest.mark.parametrize("limit", [100, 1], ids=["keys are sent", "nothing is sent"])
def test_a_merge_leaves_the_same_rows_whatever_part_of_its_source_is_broadcast(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    rows = rows_of(SOURCE, (1, "x" * 200, 1, "U"), (40, "n", 1, "I"))
    table_of(lab4, "t", TARGET_ROWS, partitioned=True)
    monkeypatch.setattr(merge_module, "_BROADCAST_BYTES", limit)
    lab4.merge(
        "t",
        [tuple(r.values()) for r in rows],
        SOURCE,
        ["id", "p"],
        [rule.clause for rule in RULES["both"]],
    )
    expected = modelled(TARGET_ROWS, rows, ["id", "p"], RULES["both"])
    assert ordered(lab4.rows("t")) == ordered([r.values() for r in expected])


@pytest.mark.promise("W4")
@pytest.mark.promise("W5")
def test_rows_whose_condition_is_null_are_not_changed(lab4: Lab) -> None:
    table_of(lab4, "t", TARGET_ROWS, partitioned=True)
    lab4.update("t", {"v": "'new'"}, "v <> 'v1'")
    expected = [
        {**r, "v": "new"} if r["v"] is not None and r["v"] != "v1" else r for r in TARGET_ROWS
    ]
    assert ordered(lab4.rows("t")) == ordered([r.values() for r in expected])
    lab4.delete("t", "NOT (id > 3 AND p = 1)")
    expected = [r for r in expected if not (r["p"] != 1 or (r["id"] is not None and r["id"] <= 3))]
    assert ordered(lab4.rows("t")) == ordered([r.values() for r in expected])
    lab4.delete("t", "NULL")
    assert ordered(lab4.rows("t")) == ordered([r.values() for r in expected])
