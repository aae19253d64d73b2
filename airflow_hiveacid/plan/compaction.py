"""Which compaction a partition needs, what goes in and what comes out: a decision, never a deed.

Takes the ACID state of one directory, seen through the compactor's write ID list, and a policy;
gives a `CompactionPlan` that says what, why and into which directories, or `NoCompaction` that
says why not.

Rules of Hive's Initiator and Worker, with two of our own: at the threshold counts (10 deltas fire,
not only 11), and a result that would be seen by halves is never planned: two directories in plain
names, which no rename shows at once; where nothing is renamed, also several files (see docs/adr).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_file_name
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.specs import CompactionChoice
from airflow_hiveacid.plan.thresholds import CompactionPolicy, decide

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.directories import AcidDirectory


class Appearance(enum.Enum):
    """How the result of a compaction comes to be seen, and by whom."""

    AT_ONCE = "a rename shows a directory whole"
    HIDDEN = "its files appear one by one; every reader waits for the commit, by the _v suffix"
    FILE_BY_FILE_HIDDEN_FROM_HIVE = "the same, and Trino, which passes over the suffix, may read it"
    FILE_BY_FILE = "its files appear one by one, and no suffix is known (3.1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """One compaction of one directory.

    `is_major` tells the kind. `inputs` are the delta directories (and, for a major one, the base)
    in the order of their write IDs; `high` is the highest write ID covered, `low` the lowest (0
    for a major one). `bytes_in` counts all input files. `appears` says how the store shows the
    result, `has_older_readers` that somebody may read by an older snapshot, on a metastore that
    knows compactions that are not committed.
    """

    is_major: bool
    why: str
    state: AcidState
    low: WriteId
    high: WriteId
    bytes_in: int
    kind: TransactionalKind = TransactionalKind.FULL_ACID
    appears: Appearance = Appearance.AT_ONCE
    has_older_readers: bool = False

    @property
    def has_deletes(self) -> bool:
        """Whether delete events go in."""
        return bool(self.state.delete_deltas)

    @property
    def has_inserts(self) -> bool:
        """Whether insert events of deltas go in."""
        return bool(self.state.deltas)

    @property
    def inputs(self) -> tuple[AcidDirectory, ...]:
        """Every directory that the result replaces."""
        base = (self.state.base,) if self.is_major and self.state.base else ()
        return (*base, *self.state.deltas, *self.state.delete_deltas)

    @property
    def read(self) -> AcidState:
        """What goes in: of a minor one only deltas, beside which all else stays and is read."""
        return self.state if self.is_major else replace(self.state, base=None, originals=())

    @property
    def hides(self) -> bool:
        """Whether the result is to stay unseen until the commit, and by whom came before it.

        It takes two directories, or rows in it do not say by which write they are; or its files
        appear one by one, and the metastore knows compactions that are not committed. Of a base
        Hive 4 takes it that who did not know its last write to be committed may read it: see
        docs/adr/0063.
        """
        if self.appears is not Appearance.AT_ONCE:
            return self.appears is not Appearance.FILE_BY_FILE
        if self.is_major:
            return self.has_older_readers
        return self.kind is TransactionalKind.INSERT_ONLY or (self.has_deletes and self.has_inserts)

    @property
    def needs_one_file(self) -> bool:
        """Whether somebody may read the result before its commit, so that it has to be one file."""
        return self.appears in (Appearance.FILE_BY_FILE, Appearance.FILE_BY_FILE_HIDDEN_FROM_HIVE)

    def outputs(self, visibility_txn_id: TxnId | None) -> tuple[BaseName | DeltaName, ...]:
        """The directories to publish, of a result that `hides` with a suffix."""
        if self.is_major:
            return (BaseName(write_id=self.high, visibility_txn_id=visibility_txn_id),)
        return tuple(
            DeltaName(
                low=self.low,
                high=self.high,
                is_delete=is_delete,
                visibility_txn_id=visibility_txn_id,
            )
            for is_delete, wanted in ((True, self.has_deletes), (False, self.has_inserts))
            if wanted
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCompaction:
    """Nothing to compact, and why."""

    why: str


ONLY_HIVE_4_READS: Final = "hiveacid.only.hive4.reads"
"""Table parameter by which its owner says that no Trino and no Hive 3.1 reads it."""


def only_hive_4_reads(parameters: Mapping[str, str]) -> bool:
    """Whether every reader of the table knows what a `_v` suffix means.

    Trino ignores it: between the two renames of a minor compaction with deletes it would see rows
    twice or deleted rows again.
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
) -> CompactionPlan | NoCompaction:
    """Decide about one directory.

    Args:
        state: what a compactor sees: no open write ID at or below its high watermark.
        choice: what was asked for; AUTO asks the thresholds.
        policy: the thresholds.
        can_hide_until_commit: whether results may carry a `_v` suffix: a 4.x metastore, and readers
            that know it (`only_hive_4_reads`).
        kind: of the table.
        appears: how its store shows a directory.
    """
    deltas = (*state.deltas, *state.delete_deltas)
    if not deltas and not state.originals:
        return NoCompaction(why="there is no delta")
    is_major, why = _kind(state, choice, policy)
    if is_major is None:
        return NoCompaction(why=why)
    if not is_major:
        promoted = _why_minor_cannot(state, kind, can_hide_until_commit=can_hide_until_commit)
        if promoted:
            is_major, why = True, f"{why}; major, because {promoted}"
        elif _is_pointless_minor(deltas):
            return NoCompaction(why="one delta is compact already")
    plan = CompactionPlan(
        is_major=is_major,
        why=why,
        state=state,
        kind=kind,
        appears=appears,
        low=WriteId(0) if is_major else _low(deltas),
        high=_high(state),
        bytes_in=_size(deltas)
        + (
            (state.base.size_bytes if state.base else 0)
            + sum(f.size_bytes for f in state.originals)
            if is_major
            else 0
        ),
    )
    buckets = _buckets(plan)
    if plan.needs_one_file and kind is TransactionalKind.FULL_ACID and len(buckets) > 1:
        return NoCompaction(why=f"{why}; not done: {seen_by_halves(plan, len(buckets))}")
    return plan


def seen_by_halves(plan: CompactionPlan, files: int) -> str:
    """Why a result of several files is not made where somebody could see some of them."""
    what = f"its result of {files} files would appear file by file on this store"
    if plan.appears is Appearance.FILE_BY_FILE:
        return f"{what}, and a metastore of Hive 3.1 cannot hide them until the commit"
    return (
        f"{what}, and Trino could read some of them"
        f" (if only Hive 4 reads the table, set {ONLY_HIVE_4_READS}=true)"
    )


def _buckets(plan: CompactionPlan) -> set[object]:
    """What each file of a full-ACID result is made of: a bucket, or a file of an unknown name."""
    originals = plan.read.originals
    names = [f.name for f in (*(f for d in plan.inputs for f in d.files), *originals)]
    found: set[object] = set()
    for name in names:
        parsed = parse_file_name(name)
        found.add(name if parsed is None else parsed.bucket_id)
    return found


def read_beside(plan: CompactionPlan, present: Iterable[BaseName | DeltaName]) -> list[DeltaName]:
    """The deltas that hold rows of a compaction's base and would be read whole beside it.

    They reach higher, so a compactor with a later snapshot has made them: one of a 3.1 metastore,
    which knows no lock of ours, or one that has taken the place of a frozen one.
    """
    if not plan.is_major:
        return []
    deltas = [name for name in present if isinstance(name, DeltaName) and not name.is_delete]
    return [d for d in deltas if d.low <= plan.high < d.high]


def doubles_rows(plan: CompactionPlan, present: Collection[BaseName | DeltaName]) -> bool:
    """Whether a published base of a dead compaction has to go again.

    A compactor that was frozen while another took its place may publish late. Beside a base, a
    delta that reaches higher is read whole, also what the base holds of it. The base goes only if
    everything that it was made from is still in place: else it may be all that is left of a row.

    Args:
        plan: the dead compaction.
        present: what is in the directory now.
    """
    if not plan.is_major or plan.state.originals:
        return False
    others = [name for name in present if name != BaseName(write_id=plan.high)]
    deltas = [name for name in others if isinstance(name, DeltaName)]

    def is_in_place(name: BaseName | DeltaName) -> bool:
        return name in others or any(d.holds(name) for d in deltas)

    return bool(read_beside(plan, others)) and all(is_in_place(d.name) for d in plan.inputs)


def _kind(
    state: AcidState, choice: CompactionChoice, policy: CompactionPolicy
) -> tuple[bool | None, str]:
    match choice:
        case CompactionChoice.MAJOR:
            return True, "asked for"
        case CompactionChoice.MINOR:
            return False, "asked for"
        case CompactionChoice.AUTO:
            return decide(state, policy)


def _why_minor_cannot(
    state: AcidState, kind: TransactionalKind, *, can_hide_until_commit: bool
) -> str | None:
    """Why a minor compaction is not possible here, or None."""
    if kind is TransactionalKind.INSERT_ONLY:
        # Rows of such a table do not say who wrote them: a delta is read whole or not at all.
        return (
            None
            if can_hide_until_commit
            else "readers of an older snapshot would see all of a wider delta"
            f" (if only Hive 4 reads the table, set {ONLY_HIVE_4_READS}=true)"
        )
    if state.originals or any(d.may_be_raw for d in state.deltas):
        return "original files have no row identity of their own (HIVE-25915)"
    if state.deltas and state.delete_deltas and not can_hide_until_commit:
        return (
            "its two result directories would not become visible at once to Hive 3.1 and Trino"
            f" (if neither reads the table, on Hive 4 set {ONLY_HIVE_4_READS}=true)"
        )
    deltas = (*state.deltas, *state.delete_deltas)
    is_pair = _is_pointless_minor(deltas)
    if state.deltas and state.delete_deltas and not is_pair and len(_write_ids(deltas)) == 1:
        return (
            "of one write ID Hive 4 looks for deletes in later statements only, and a compacted"
            " delta has no statement"
        )
    return None


def _write_ids(deltas: Iterable[AcidDirectory]) -> set[WriteId]:
    names = [d.name for d in deltas if isinstance(d.name, DeltaName)]
    return {end for name in names for end in (name.low, name.high)}


_PAIR: Final = 2


def _is_pointless_minor(deltas: tuple[AcidDirectory, ...]) -> bool:
    """As Hive's Worker: one delta, or one delta and its twin of deletes, gain nothing."""
    is_twins = len(deltas) == _PAIR and len({d.is_delete for d in deltas}) == _PAIR
    return len(deltas) < _PAIR or is_twins


def _low(deltas: tuple[AcidDirectory, ...]) -> WriteId:
    return min(d.name.low for d in deltas if isinstance(d.name, DeltaName))


def _high(state: AcidState) -> WriteId:
    # MR compactors name the result by the highest input (CompactorMR); the list's high watermark
    # would do too, but would claim write IDs of other partitions for nothing.
    return max((d.high for d in state.live), default=WriteId(0))


def _size(directories: Iterable[AcidDirectory]) -> int:
    return sum(d.size_bytes for d in directories)
