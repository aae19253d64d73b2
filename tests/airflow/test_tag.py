from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_hiveacid.format.errors import ConfigurationError, TagTakenError, VersionUnknownError
from airflow_hiveacid.operators.tag import HiveAcidTagOperator
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from tests.support.airflow_support import StateStore, Warehouse, context_of, run_task


def _task(table: str, **arguments: Any) -> HiveAcidTagOperator:  # noqa: ANN401
    return HiveAcidTagOperator(task_id="tag", **{"table": table, "name": "closing", **arguments})


def test_a_dag_creates_moves_and_drops_a_tag(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    made = run_task(_task(str(table.ref), name="closing-{{ ds }}", keep_for="{{ 90 }} days"))
    expires = made.pop("expires")
    assert made == {"table": str(table.ref), "tag": "closing-2013-01-02", "version": 1}
    left = datetime.fromisoformat(expires) - datetime.now(UTC)
    assert 89 < left.total_seconds() / 86400 < 91
    warehouse.delta(table, 1)
    with pytest.raises(TagTakenError, match="for version 1"):
        run_task(_task(str(table.ref), name="closing-2013-01-02", version=2))
    moved = run_task(
        _task(
            str(table.ref),
            name="closing-2013-01-02",
            action="{{ 'MOVE' }}",
            version="{{ 1 + 1 }}",
            expires="2999-01-01T00:00:00Z",
        )
    )
    assert (moved["version"], moved["expires"]) == (2, "2999-01-01T00:00:00.000Z")
    for _ in range(2):
        gone = run_task(_task(str(table.ref), name="closing-2013-01-02", action="drop"))
        assert (gone["version"], gone["expires"]) == (None, None)
    assert VersionNotes.of(warehouse.client.get_table(table.ref)).tags() == ()
    with pytest.raises(VersionUnknownError, match="no version 9"):
        run_task(_task(str(table.ref), version=9))
    with pytest.raises(ConfigurationError, match=r"its expiry .* has passed"):
        run_task(_task(str(table.ref), expires="2001-01-01T00:00:00Z"))


def test_a_retry_tags_the_version_of_its_first_try_and_a_cleared_task_the_newest(
    warehouse: Warehouse,
) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    store = StateStore()
    first = run_task(_task(str(table.ref)), context_of(task_state_store=store))
    warehouse.delta(table, 1)
    store.clear()  # Airflow never heard of its end
    for action in ("make", "move"):
        again = _task(str(table.ref), action=action)
        lost = context_of(try_number=2, task_state_store=StateStore())
        assert run_task(again, lost) == first
    done = StateStore()
    assert run_task(_task(str(table.ref)), context_of(task_state_store=done)) == first
    cleared = context_of(try_number=2, task_state_store=done)
    cleared["ti"].max_tries = 1
    with pytest.raises(TagTakenError):
        run_task(_task(str(table.ref)), cleared)
    moved = run_task(_task(str(table.ref), action="move"), cleared)
    assert moved["version"] == 2


@pytest.mark.parametrize("template", ["{{ none }}", "{{ '' }}"])
def test_a_blank_rendered_version_is_refused_instead_of_meaning_the_newest(template: str) -> None:
    with pytest.raises(ConfigurationError, match="version must be"):
        run_task(_task("db.t", version=template))
