"""Rows without files: what a reader of a state sees when the directories hold given events.

An event is (identity, current write ID); an insert's identity starts with its original write ID.
The rule is the reader's: what is visible by its current write ID, less what a visible delete names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.snapshot import ValidWriteIdList

Identity = tuple[int, int, int]
Event = tuple[Identity, int]


def visible(
    state: AcidState, write_ids: ValidWriteIdList, contents: Mapping[str, Sequence[Event]]
) -> list[Identity]:
    """The identities a reader sees, sorted; one that it sees twice is there twice."""
    data = [d for d in (state.base, *state.deltas) if d is not None]
    deleted = {
        identity
        for d in state.delete_deltas
        for identity, current in contents.get(d.text, ())
        if write_ids.is_visible(current)  # type: ignore[arg-type]
    }
    return sorted(
        identity
        for d in data
        for identity, current in contents.get(d.text, ())
        if write_ids.is_visible(current) and identity not in deleted  # type: ignore[arg-type]
    )
