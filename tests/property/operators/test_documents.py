from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any, Final

from hypothesis import given, strategies as st

from airflow_hiveacid.operators.reporting.document import (
    COLUMNS,
    TableNumbers,
    TableRow,
    document,
    parsed,
)

_ENTRY: Final = [1, "d.t", "p=1", "minor", "failed", 1.0, None, 3.0, False]
_DETAILS: Final[dict[str, list[Any]]] = {
    "findings": [["compaction", "due", "it is due", ""]],
    "directories": [["p=1", "delta_1_1", "insert", 1, 1, "live", None, 100]],
    "locks": [[1, None, "exclusive", "acquired", 7, None, "etl"]],
    "versions": [[3, 1.0, "insert", "job", 1, 0, 0, True, ["tag"]]],
}
_DUE: Final = TableRow(table="d.t", state="due", ratio=0.5)
_MADE: Final = document(
    [
        TableNumbers(row=_DUE, details=_DETAILS, cause="10 deltas"),
        TableNumbers(row=replace(_DUE, table="d.u"), cause="10 deltas"),
    ],
    measured_s=0.0,
    settings={
        "connection": "hms",
        "delta_count": 10,
        "delta_ratio": None,
        "oldest": [[7, 1.0]],
    },
    queue=[_ENTRY],
)
_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_a_stored_document_with_any_value_anywhere_is_refused_or_can_be_shown(
    data: st.DataObject,
) -> None:
    made: Any = copy.deepcopy(_MADE)
    at = made
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if isinstance(at[key], dict | list) and at[key] and data.draw(st.booleans()):
            at = at[key]
            continue
        at[key] = data.draw(_JSON)
        break
    found = parsed(made)
    if found is None:
        return
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    assert all(row.pop("cause") in {None, *range(len(found["causes"]))} for row in found["rows"])
    lists = [(name, found[name]) for name in ("rows", "causes", "oldest", "queue")]
    for details in found["details"].values():
        lists += [(name, entries) for name, entries in details.items() if name != "left_out"]
    for name, entries in lists:
        for entry in entries:
            assert list(entry) == list(COLUMNS[name])
            for value in entry.values():
                inner = value if isinstance(value, list) else [value]
                assert all(isinstance(one, None | bool | int | float | str) for one in inner)


def test_a_document_of_the_collector_is_read_as_it_was_made() -> None:
    found = parsed(json.loads(json.dumps(_MADE)))
    assert found is not None
    assert list(found["queue"][0].values()) == _ENTRY
    assert [row["why"] for row in found["rows"]] == ["10 deltas", "10 deltas"]
    assert [row["cause"] for row in found["rows"]] == [0, 0]
    assert found["rows"][0]["ratio"] == 0.5
    assert found["details"]["d.t"]["versions"][0]["tags"] == ["tag"]
    assert found["details"]["d.t"]["plan"] == []
