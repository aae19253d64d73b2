"""What notes of a table's past say, as JSON: each kind written and read in one place.

Takes parsed JSON and the table's ID; gives the values of `plan.history` and `plan.keeping`. What is
malformed raises as Python does; who reads the file says which it was.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.versions import Kept
from airflow_hiveacid.plan.history import Between, CommitNote
from airflow_hiveacid.plan.keeping import (
    Horizon,
    Keeping,
    OwnCompaction,
    Reset,
    Tag,
    TaggedRoot,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def keeping_body(keeping: Keeping) -> dict[str, Any]:
    """What a note says of keeping."""
    return {
        "last_entry_id": keeping.last_entry_id,
        "since_s": keeping.since_s,
        "roots": {
            str(name): {"floor": kept.floor, "witnesses": sorted(kept.witnesses)}
            for name, kept in keeping.roots.items()
        },
    }


def resets_body(resets: Sequence[Reset]) -> dict[str, Any]:
    """What a note says of what was removed without a version."""
    return {
        "resets": [
            {**asdict(one), "partition": str(one.partition), "names": sorted(one.names)}
            for one in resets
        ]
    }


def commit_of(table_id: str, body: dict[str, Any]) -> CommitNote:
    """What a note says of a commit."""
    return CommitNote(
        table_id=table_id,
        write_id=WriteId(int(body["write_id"])),
        txn_id=TxnId(int(body["txn_id"])),
        job_key=str(body["job_key"]),
        attempt=str(body["attempt"]),
        kind=str(body["kind"]),
        inserted=int(body["inserted"]),
        updated=int(body["updated"]),
        deleted=int(body["deleted"]),
        partitions=_texts(body["partitions"]),
        files=int(body["files"]),
        size_bytes=int(body["size_bytes"]),
        directories=_texts(body["directories"]),
        opened_s=_seconds(body["opened_s"]),
        seen=str(body["seen"]),
        seen_after_s=float(body["seen_after_s"]),
        seen_by_s=float(body["seen_by_s"]),
        committed=Between(
            after_s=_seconds(body["committed"]["after_s"]),
            by_s=_seconds(body["committed"]["by_s"]),
        ),
    )


def commits_of(table_id: str, body: dict[str, Any]) -> tuple[CommitNote, ...]:
    """The same of a bundle of them."""
    return tuple(commit_of(table_id, one) for one in body["commits"])


def keeping_of(table_id: str, body: dict[str, Any]) -> Keeping:
    """Since when a table is kept."""
    return Keeping(
        table_id=table_id,
        last_entry_id=int(body["last_entry_id"]),
        since_s=float(body["since_s"]),
        roots={
            PartitionName.parse(name): Kept(
                floor=WriteId(int(kept["floor"])), witnesses=frozenset(_texts(kept["witnesses"]))
            )
            for name, kept in body["roots"].items()
        },
    )


def horizon_of(_table_id: str, body: dict[str, Any]) -> Horizon:
    """Which versions of a partition end."""
    return Horizon(
        partition=PartitionName.parse(str(body["partition"])),
        write_id=WriteId(int(body["write_id"])),
        high_watermark=TxnId(int(body["high_watermark"])),
        at_s=float(body["at_s"]),
    )


def resets_of(_table_id: str, body: dict[str, Any]) -> tuple[Reset, ...]:
    """What was removed without a version."""
    return tuple(
        Reset(
            partition=PartitionName.parse(str(one["partition"])),
            write_id=WriteId(int(one["write_id"])),
            lowest=WriteId(int(one["lowest"])),
            highest=WriteId(int(one["highest"])),
            names=frozenset(_texts(one["names"])),
        )
        for one in body["resets"]
    )


def own_body(own: Sequence[OwnCompaction]) -> dict[str, Any]:
    """What one note says of several entries of ours."""
    return {"entries": [asdict(one) for one in own]}


def own_of(_table_id: str, body: dict[str, Any]) -> tuple[OwnCompaction, ...]:
    """Which queue entries are ours: one, or several that were put together."""
    return tuple(
        OwnCompaction(
            entry_id=int(one["entry_id"]), aborted=tuple(WriteId(int(w)) for w in one["aborted"])
        )
        for one in body.get("entries", [body])
    )


def tag_body(tag: Tag) -> dict[str, Any]:
    """What a note says of a tag."""
    roots = [
        {"partition": str(r.partition), "location": r.location, "names": sorted(r.names)}
        for r in tag.roots
    ]
    return {**asdict(tag), "roots": roots}


def tag_of(table_id: str, body: dict[str, Any]) -> Tag:
    """A version with a name."""
    return Tag(
        name=str(body["name"]),
        table_id=table_id,
        write_ids=str(body["write_ids"]),
        made_s=float(body["made_s"]),
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
    return float(value) if isinstance(value, int | float) else None
