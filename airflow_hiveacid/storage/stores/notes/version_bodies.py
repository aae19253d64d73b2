"""Convert notes about a table's past to JSON and back.

The module takes parsed JSON and the table's ID, and returns values of `format.records`. Malformed
JSON raises Python's own exceptions; the caller adds the file name.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.records.commits import CommitNote, TimeBounds
from airflow_hiveacid.format.records.keeping import (
    Horizon,
    Keeping,
    OwnCompaction,
    Reset,
    Tag,
    TaggedRoot,
)
from airflow_hiveacid.format.state.versions import Kept
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.storage.stores.notes.json_files import seconds, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def keeping_body(keeping: Keeping) -> dict[str, Any]:
    """Return the JSON of a guarantee to keep versions."""
    return {
        "last_entry_id": keeping.last_entry_id,
        "since_s": keeping.since_s,
        "roots": {
            str(name): {"floor": kept.floor, "witnesses": sorted(kept.evidence)}
            for name, kept in keeping.roots.items()
        },
    }


def resets_body(resets: Sequence[Reset]) -> dict[str, Any]:
    """Return the JSON of removals that did not create a version."""
    return {
        "resets": [
            {**asdict(one), "partition": str(one.partition), "names": sorted(one.names)}
            for one in resets
        ]
    }


def commit_of(table_id: str, body: dict[str, Any]) -> CommitNote:
    """Parse the note of a commit."""
    return CommitNote(
        table_id=table_id,
        write_id=WriteId(whole_number(body["write_id"])),
        txn_id=TxnId(whole_number(body["txn_id"])),
        job_key=str(body["job_key"]),
        attempt=str(body["attempt"]),
        kind=str(body["kind"]),
        inserted=whole_number(body["inserted"]),
        updated=whole_number(body["updated"]),
        deleted=whole_number(body["deleted"]),
        partitions=_texts(body["partitions"]),
        files=whole_number(body["files"]),
        size_bytes=whole_number(body["size_bytes"]),
        directories=_texts(body["directories"]),
        opened_s=_seconds(body["opened_s"]),
        seen=str(body["seen"]),
        seen_after_s=seconds(body["seen_after_s"]),
        seen_by_s=seconds(body["seen_by_s"]),
        committed=TimeBounds(
            after_s=_seconds(body["committed"]["after_s"]),
            by_s=_seconds(body["committed"]["by_s"]),
        ),
    )


def commits_of(table_id: str, body: dict[str, Any]) -> tuple[CommitNote, ...]:
    """Parse a bundle of commit notes."""
    return tuple(commit_of(table_id, one) for one in body["commits"])


def keeping_of(table_id: str, body: dict[str, Any]) -> Keeping:
    """Parse the note of a guarantee to keep versions."""
    return Keeping(
        table_id=table_id,
        last_entry_id=whole_number(body["last_entry_id"]),
        since_s=seconds(body["since_s"]),
        roots={
            PartitionName.parse(name): Kept(
                floor=WriteId(whole_number(kept["floor"])),
                evidence=frozenset(_texts(kept["witnesses"])),
            )
            for name, kept in body["roots"].items()
        },
    )


def horizon_of(_table_id: str, body: dict[str, Any]) -> Horizon:
    """Parse the note of a partition's horizon."""
    return Horizon(
        partition=PartitionName.parse(str(body["partition"])),
        write_id=WriteId(whole_number(body["write_id"])),
        high_watermark=TxnId(whole_number(body["high_watermark"])),
        at_s=seconds(body["at_s"]),
    )


def resets_of(_table_id: str, body: dict[str, Any]) -> tuple[Reset, ...]:
    """Parse the note of removals that did not create a version."""
    return tuple(
        Reset(
            partition=PartitionName.parse(str(one["partition"])),
            write_id=WriteId(whole_number(one["write_id"])),
            lowest=WriteId(whole_number(one["lowest"])),
            highest=WriteId(whole_number(one["highest"])),
            names=frozenset(_texts(one["names"])),
        )
        for one in body["resets"]
    )


def own_body(own: Sequence[OwnCompaction]) -> dict[str, Any]:
    """Return the JSON of a note about several of our compactions."""
    return {"entries": [asdict(one) for one in own]}


def own_of(_table_id: str, body: dict[str, Any]) -> tuple[OwnCompaction, ...]:
    """Parse a note about one or several of our compactions."""
    return tuple(
        OwnCompaction(
            entry_id=whole_number(one["entry_id"]),
            aborted=tuple(WriteId(whole_number(w)) for w in one["aborted"]),
        )
        for one in body.get("entries", [body])
    )


def tag_body(tag: Tag) -> dict[str, Any]:
    """Return the JSON of a tag."""
    roots = [
        {"partition": str(r.partition), "location": r.location, "names": sorted(r.names)}
        for r in tag.roots
    ]
    return {**asdict(tag), "roots": roots}


def tag_of(table_id: str, body: dict[str, Any]) -> Tag:
    """Parse the note of a tag."""
    return Tag(
        name=str(body["name"]),
        table_id=table_id,
        write_ids=str(body["write_ids"]),
        made_s=seconds(body["made_s"]),
        made_by=str(body["made_by"]),
        expires_s=_seconds(body["expires_s"]),
        roots=tuple(
            TaggedRoot(
                partition=PartitionName.parse(str(root["partition"])),
                location=str(root["location"]),
                names=frozenset(_texts(root["names"])),
            )
            for root in body["roots"]
        ),
        is_sure=bool(body.get("is_sure", True)),
    )


def _texts(value: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, value))


def _seconds(value: object) -> float | None:
    return None if value is None else seconds(value)
