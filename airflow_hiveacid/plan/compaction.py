"""Decides whether to compact a partition, and chooses the kind, the inputs and the outputs.

The rules are those of Hive's Initiator and Worker, with two differences
(docs/decisions/compaction.md): a count threshold is inclusive, so 10 deltas reach a threshold of
10; and no reader sees an incomplete result of a compaction.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.directories import AcidDirectory, result_of
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.plan.thresholds import CompactionPolicy, TableHealth, decide

OPEN_BYTES: Final = 4 << 20
"""The bytes that a reader could read in the time in which it opens a file.

The value is the default of Spark's `spark.sql.files.openCostInBytes`.
"""


class Appearance(enum.Enum):
    """The way in which a compaction's result becomes visible, and to which readers."""

    AT_ONCE = "a rename makes the whole directory visible at once"
    HIDDEN = "its files appear one by one, but the _v suffix hides them until the commit"
    FILE_BY_FILE_HIDDEN_FROM_HIVE = (
        "its files appear one by one, and Trino reads them despite the _v suffix"
    )
    FILE_BY_FILE = "its files appear one by one, and no suffix is known (3.1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """One compaction of one directory.

    It covers the write IDs from `low` (0 if major) to `high`. `appears` is how the result becomes
    visible on the table's store. `has_older_readers` is True if the metastore tracks uncommitted
    compactions, and some reader may have a snapshot from before the compaction.
    """

    is_major: bool
    why: str
    state: AcidState
    low: WriteId
    high: WriteId
    kind: TransactionalKind = TransactionalKind.FULL_ACID
    appears: Appearance = Appearance.AT_ONCE
    has_older_readers: bool = False

    @property
    def choice(self) -> CompactionChoice:
        """The kind of the compaction: MAJOR or MINOR."""
        return CompactionChoice.MAJOR if self.is_major else CompactionChoice.MINOR

    @property
    def has_deletes(self) -> bool:
        """True if the inputs contain delete events."""
        return bool(self.state.delete_deltas)

    @property
    def has_inserts(self) -> bool:
        """True if the input deltas contain insert events."""
        return bool(self.state.deltas)

    @property
    def inputs(self) -> tuple[AcidDirectory, ...]:
        """All directories that the result replaces, in the order of write IDs after the base."""
        base = (self.state.base,) if self.is_major and self.state.base else ()
        return (*base, *self.state.deltas, *self.state.delete_deltas)

    @property
    def bytes_in(self) -> int:
        """The size of all input files."""
        directories = sum(directory.size_bytes for directory in self.inputs)
        return directories + sum(file.size_bytes for file in self.read.originals)

    @property
    def score(self) -> float:
        """The bytes that each later read saves, for each byte that the compaction reads.

        A read saves opening the replaced directories (`OPEN_BYTES` each) and, after a major
        compaction, the delete deltas and the rows that they delete. These rows count with the size
        of their delete events, which is a lower limit.
        """
        results = 1 if self.is_major else self.has_deletes + self.has_inserts
        replaced = len(self.inputs) + (1 if self.is_major and self.state.originals else 0)
        saved = max(0, replaced - results) * OPEN_BYTES
        if self.is_major:
            saved += 2 * sum(delta.size_bytes for delta in self.state.delete_deltas)
        return saved / max(1, self.bytes_in)

    @property
    def read(self) -> AcidState:
        """The state to compact; for a minor compaction, it contains only the deltas."""
        return self.state if self.is_major else replace(self.state, base=None, originals=())

    @property
    def hides(self) -> bool:
        """True if only readers with a snapshot after the commit may see the result.

        It must be hidden if it has two directories, if its rows have no write IDs, or if its files
        become visible one by one and the metastore tracks uncommitted compactions. A Hive 4 reader
        may read a base whose last write is not committed in the reader's snapshot, so older readers
        must not see a base (docs/decisions/compaction.md).
        """
        if self.appears is not Appearance.AT_ONCE:
            return self.appears is not Appearance.FILE_BY_FILE
        if self.is_major:
            return self.has_older_readers
        return self.kind is TransactionalKind.INSERT_ONLY or (self.has_deletes and self.has_inserts)

    @property
    def needs_one_file(self) -> bool:
        """True if the result must be one file because readers may see it before the commit."""
        return self.appears in (Appearance.FILE_BY_FILE, Appearance.FILE_BY_FILE_HIDDEN_FROM_HIVE)

    def outputs(self, visibility_txn_id: TxnId | None) -> tuple[BaseName | DeltaName, ...]:
        """Return the directory names to publish; only a hidden result gets a `_v` suffix."""
        if self.is_major:
            return (BaseName(write_id=self.high, visibility_txn_id=visibility_txn_id),)
        return tuple(
            DeltaName(
                low=self.low,
                high=self.high,
                is_delete=is_delete,
                visibility_txn_id=visibility_txn_id,
            )
            for is_delete, is_needed in ((True, self.has_deletes), (False, self.has_inserts))
            if is_needed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCompaction:
    """The decision not to compact; if `is_hindered`, a compaction is needed but impossible."""

    why: str
    is_hindered: bool = False


NO_DELTA: Final = "there is no delta"
ONLY_HIVE_4_READS: Final = "hiveacid.only.hive4.reads"
"""Table parameter: if true, the owner declares that neither Trino nor Hive 3.1 reads the table."""


def only_hive_4_reads(parameters: Mapping[str, str]) -> bool:
    """Return whether every reader of the table understands a `_v` suffix.

    Trino ignores the suffix. So between the two renames of a minor compaction with deletes, Trino
    would see some rows twice, or would see deleted rows.
    """
    return parameters.get(ONLY_HIVE_4_READS, "").lower() == "true"


def plan_compaction(  # noqa: PLR0913 - every input is one fact of the decision
    state: AcidState,
    choice: CompactionChoice,
    policy: CompactionPolicy,
    *,
    can_hide_until_commit: bool,
    kind: TransactionalKind = TransactionalKind.FULL_ACID,
    appears: Appearance = Appearance.AT_ONCE,
    health: TableHealth | None = None,
) -> CompactionPlan | NoCompaction:
    """Return the plan for a compaction of one directory, or the reason not to compact it.

    The high watermark of `state` is below all open write IDs. The request in the queue replaces the
    choice QUEUED. With `can_hide_until_commit`, results may have a `_v` suffix, which needs a Hive
    4 metastore and readers that understand it (`only_hive_4_reads`). AUTO compares `health` with
    the thresholds; by default, it measures what needs neither a clock nor the contents of files.
    """
    deltas = (*state.deltas, *state.delete_deltas)
    if not deltas and not state.originals:
        only = "; cleaning removes the directories of aborted writes" if state.aborted else ""
        return NoCompaction(why=f"{NO_DELTA}{only}")
    is_major, why = _kind(choice, policy, lambda: health or TableHealth.of(state, kind=kind))
    if is_major is None:
        return NoCompaction(why=why)
    if not is_major:
        promoted = _why_minor_cannot(state, kind, can_hide_until_commit=can_hide_until_commit)
        if promoted:
            is_major, why = True, f"{why}; major, because {promoted}"
        elif _is_pointless_minor(deltas):
            return NoCompaction(why="a single delta is already compact")
    plan = CompactionPlan(
        is_major=is_major,
        why=why,
        state=state,
        kind=kind,
        appears=appears,
        low=WriteId(0) if is_major else min(_write_ids(deltas)),
        # Hive's class CompactorMR also names the result after the highest write ID of the inputs.
        # The high watermark of the write ID list would cover write IDs of other partitions, too.
        high=max((d.high for d in state.live), default=WriteId(0)),
    )
    files = (*(file for directory in plan.inputs for file in directory.files), *plan.read.originals)
    results = {result_of(file.name) for file in files}
    if plan.needs_one_file and kind is TransactionalKind.FULL_ACID and len(results) > 1:
        why_not = f"{why}; not done: {seen_by_halves(plan, len(results))}"
        return NoCompaction(why=why_not, is_hindered=True)
    return plan


def seen_by_halves(plan: CompactionPlan, files: int) -> str:
    """Return why a store without atomic renames rules out a result of several files."""
    result_text = f"its result of {files} files would appear file by file on this store"
    if plan.appears is Appearance.FILE_BY_FILE:
        return f"{result_text}, and a metastore of Hive 3.1 cannot hide them until the commit"
    return (
        f"{result_text}, and Trino could read some of them"
        f" (if only Hive 4 reads the table, set {ONLY_HIVE_4_READS}=true)"
    )


def read_beside(plan: CompactionPlan, present: Iterable[BaseName | DeltaName]) -> list[DeltaName]:
    """Return the deltas that readers read beside a compaction's base although they repeat its rows.

    A second compactor with a later snapshot wrote such a delta: a Hive 3.1 worker, which ignores
    our locks, or one that was started because the first compactor was suspended.
    """
    if not plan.is_major:
        return []
    deltas = [name for name in present if isinstance(name, DeltaName) and not name.is_delete]
    return [d for d in deltas if d.low <= plan.high < d.high]


def replacing_base(
    plan: CompactionPlan,
    present: Iterable[str],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
) -> BaseName | None:
    """Return a base with a higher write ID that replaces a compaction's whole result, or None.

    `present` are the names of the existing directories; `write_ids` and `txns` are those of now.
    """
    bases = [
        name
        for text in present
        if isinstance(name := parse_directory_name(text), BaseName)
        and name.write_id > plan.high
        and write_ids.is_visible(name.write_id)
        and (name.visibility_txn_id is None or txns.is_visible(name.visibility_txn_id))
    ]
    return max(bases, key=lambda name: name.write_id, default=None)


def doubles_rows(plan: CompactionPlan, present: Collection[BaseName | DeltaName]) -> bool:
    """Return whether the published base of an aborted compaction must be removed again.

    A suspended compactor may publish its base after a second compactor. Readers read a delta of the
    second with a higher write ID beside the base, and see the common rows twice. Without all its
    inputs, the base may contain the only copy of a row, and must stay.
    """
    if not plan.is_major or plan.state.originals:
        return False
    neighbours = [name for name in present if name != BaseName(write_id=plan.high)]
    deltas = [name for name in neighbours if isinstance(name, DeltaName)]

    def is_in_place(name: BaseName | DeltaName) -> bool:
        return name in neighbours or any(d.holds(name) for d in deltas)

    return bool(read_beside(plan, neighbours)) and all(is_in_place(d.name) for d in plan.inputs)


def _kind(
    choice: CompactionChoice, policy: CompactionPolicy, measure: Callable[[], TableHealth]
) -> tuple[bool | None, str]:
    match choice:
        case CompactionChoice.MAJOR:
            return True, "requested"
        case CompactionChoice.MINOR:
            return False, "requested"
        case CompactionChoice.AUTO:
            return decide(measure(), policy)
        case CompactionChoice.QUEUED:
            raise ValueError("the request in the queue says which kind of compaction to plan")


def _why_minor_cannot(
    state: AcidState, kind: TransactionalKind, *, can_hide_until_commit: bool
) -> str | None:
    if kind is TransactionalKind.INSERT_ONLY:
        # Rows of an insert-only table have no write IDs, so a reader reads all of a delta or
        # nothing.
        return (
            None
            if can_hide_until_commit
            else "readers with an older snapshot would see all of a wider delta"
            f" (if only Hive 4 reads the table, set {ONLY_HIVE_4_READS}=true)"
        )
    if state.originals or any(d.may_be_raw for d in state.deltas):
        return "original files do not store row IDs (HIVE-25915)"
    if state.deltas and state.delete_deltas and not can_hide_until_commit:
        return (
            "its two result directories would not become visible at once to Hive 3.1 and Trino"
            f" (if neither reads the table, on Hive 4 set {ONLY_HIVE_4_READS}=true)"
        )
    deltas = (*state.deltas, *state.delete_deltas)
    is_pair = _is_pointless_minor(deltas)
    if state.deltas and state.delete_deltas and not is_pair and len(_write_ids(deltas)) == 1:
        return (
            "for rows and deletes of one write ID, Hive 4 compares statement IDs, and a compacted"
            " delta has none"
        )
    return None


def _write_ids(deltas: Iterable[AcidDirectory]) -> set[WriteId]:
    names = [d.name for d in deltas if isinstance(d.name, DeltaName)]
    return {end for name in names for end in (name.low, name.high)}


def _is_pointless_minor(deltas: tuple[AcidDirectory, ...]) -> bool:
    """Return whether there is at most one delta and one delete delta, as in Hive's class Worker."""
    return len({d.is_delete for d in deltas}) == len(deltas)
