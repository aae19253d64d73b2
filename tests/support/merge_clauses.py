"""The WHEN clauses of MERGE that tests use, by what they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_hiveacid.jobs.statements import MergeAction, MergeClause, MergeWhen


def matched_update(set_: Mapping[str, str], condition: str | None = None) -> MergeClause:
    return MergeClause(
        when=MergeWhen.MATCHED, action=MergeAction.UPDATE, set=set_, condition=condition
    )


def matched_delete(condition: str | None = None) -> MergeClause:
    return MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE, condition=condition)


def unmatched_insert(condition: str | None = None) -> MergeClause:
    return MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT, condition=condition)


UPDATE_ALL: Final = MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE)
UPDATE_V: Final = matched_update({"v": "s.v"})
INSERT_ALL: Final = unmatched_insert()
UPSERT_ALL: Final = (UPDATE_ALL, INSERT_ALL)
UPSERT_V: Final = (UPDATE_V, INSERT_ALL)
