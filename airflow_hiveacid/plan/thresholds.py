"""Measurements of a table's health, and the rules that decide when it needs compaction.

A compactor sees only writes below the lowest open write ID, so all counted deltas can be compacted.
Sensors, triggers and compaction plans use these rules.

A table stays above a threshold until a compaction commits, so the rule when to repeat an event
needs the time of the last event. With many writers, no poll may see it below, so it also needs the
ended compactions.

Example:
    >>> health = TableHealth(table="db.t", location="/t", base_bytes=1000, deltas=9, delta_bytes=99)
    >>> exceeded(health, CompactionPolicy())
    ()
    >>> from dataclasses import replace
    >>> [str(e) for e in exceeded(replace(health, delta_bytes=100), CompactionPolicy())]
    ['deltas hold 10.0 % of the base (threshold 10.0 %)']
    >>> last = Firing(table_id="3", write_id=7, at_s=1000.0, ended_entry=0)
    >>> later = Firing(table_id="3", write_id=8, at_s=1060.0, ended_entry=0)
    >>> fires(None, last, refire_after_s=3600), fires(last, later, refire_after_s=3600)
    (True, False)
    >>> fires(last, replace(later, ended_entry=1), refire_after_s=3600)
    True
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Final

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.directories import mergeable
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.words import age_text
from airflow_hiveacid.jobs.maintenance import ABORTED_TRANSACTIONS, DELTA_COUNT, DELTA_RATIO

Scalar = str | int | float | None
"""A JSON value in a record of measurements."""

Measured = float | Fraction | None
SMALL_FILE_BYTES: Final = 16_000_000
"""The limit for small files: the default of Hive's `hive.merge.smallfiles.avgsize`."""


class Threshold(enum.Enum):
    """The kind of threshold that was reached."""

    DELTA_COUNT = "delta_count"
    DELTA_RATIO = "delta_ratio"
    OBSOLETE_DIRECTORIES = "obsolete_directories"
    ABORTED_DIRECTORIES = "aborted_directories"
    SMALL_FILES = "small_files"
    DELETED_ROWS = "deleted_rows"
    ABORTED_TRANSACTIONS = "aborted_transactions"
    OLDEST_TRANSACTION_S = "oldest_transaction_s"
    OLDEST_ABORTED_S = "oldest_aborted_s"
    OLDEST_DELTA_S = "oldest_delta_s"


ALSO_WHEN: Final = (
    Threshold.ABORTED_TRANSACTIONS,
    Threshold.OLDEST_ABORTED_S,
    Threshold.DELETED_ROWS,
    Threshold.SMALL_FILES,
    Threshold.OLDEST_DELTA_S,
)
"""The thresholds of a compaction besides those of the deltas' number and size."""

_OF_AGES: Final[Mapping[Threshold, str]] = {
    Threshold.OLDEST_TRANSACTION_S: "a transaction has been open for {}",
    Threshold.OLDEST_ABORTED_S: "the oldest aborted write is {} old",
    Threshold.OLDEST_DELTA_S: "the oldest delta is {} old",
}
_NOUNS: Final[Mapping[Threshold, str]] = {
    Threshold.DELTA_COUNT: "delta directories",
    Threshold.OBSOLETE_DIRECTORIES: "obsolete directories",
    Threshold.ABORTED_DIRECTORIES: "aborted directories",
    Threshold.SMALL_FILES: "small files",
    Threshold.DELETED_ROWS: "deleted rows",
    Threshold.ABORTED_TRANSACTIONS: "aborted transactions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """The thresholds that apply to a table; 10 deltas reach a threshold of 10.

    A threshold that is None does not apply (`plan.compaction_policy`). `delta_count` counts delta
    and delete delta directories together, as Hive's Initiator does
    (AcidDirectory.getCurrentDirectories). `delta_ratio` is their size as a fraction of the base's.
    `count_origin` and `ratio_origin` name the table parameter that sets the threshold, if one does.
    `warnings` are complaints about table parameters with wrong values, which do not apply.

    `also_when` has further thresholds, each with a key of `ALSO_WHEN`:

    * ABORTED_TRANSACTIONS and OLDEST_ABORTED_S (seconds): the aborted writes that a major
      compaction would cover (`AbortedWrites`). Hive compacts above, not at, the same number.
    * DELETED_ROWS: the visible delete events.
    * SMALL_FILES: the small files that a compaction would merge away (`format.directories`).
    * OLDEST_DELTA_S (seconds): the age of the oldest visible delta or delete delta.

    Raises:
        ConfigurationError: a threshold is not positive, or the ratio is above 1.
    """

    delta_count: int | None = DELTA_COUNT
    delta_ratio: float | None = DELTA_RATIO
    count_origin: str = ""
    ratio_origin: str = ""
    also_when: Mapping[Threshold, float] = field(
        default_factory=lambda: {Threshold.ABORTED_TRANSACTIONS: ABORTED_TRANSACTIONS}
    )
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.delta_count is not None:
            check_delta_count(self.delta_count)
        if self.delta_ratio is not None:
            check_delta_ratio(self.delta_ratio)
        for threshold, limit in self.also_when.items():
            check_also_when(threshold.value, limit)

    @property
    def limits(self) -> dict[Threshold, float]:
        """The thresholds that apply; the ratio comes first, then the count."""
        deltas = {
            Threshold.DELTA_RATIO: self.delta_ratio,
            Threshold.DELTA_COUNT: self.delta_count,
        }
        return {**{t: limit for t, limit in deltas.items() if limit is not None}, **self.also_when}

    @property
    def origins(self) -> dict[Threshold, str]:
        """The table parameters that set thresholds."""
        return {
            Threshold.DELTA_RATIO: self.ratio_origin,
            Threshold.DELTA_COUNT: self.count_origin,
        }

    def __str__(self) -> str:
        parts = []
        if self.delta_count is not None:
            parts.append(f"{self.delta_count} deltas{_by(self.count_origin)}")
        if self.delta_ratio is not None:
            parts.append(f"{100 * self.delta_ratio:g} %{_by(self.ratio_origin)}")
        parts += (limit_text(threshold, limit) for threshold, limit in self.also_when.items())
        return " or ".join(parts)


def _by(origin: str) -> str:
    return f" by {origin}" if origin else ""


def check_delta_count(value: int) -> None:
    """Raise a ConfigurationError if a threshold for the number of deltas is below 1."""
    if value < 1:
        raise ConfigurationError(f"delta_count must be 1 or more, found {value}")


def check_delta_ratio(value: float) -> None:
    """Raise a ConfigurationError unless a threshold for the deltas' share of bytes is in (0, 1].

    A value above 1 is a percentage by mistake, and the table would hardly ever be compacted.
    """
    if not value > 0:  # this form of the comparison also rejects NaN
        raise ConfigurationError(f"delta_ratio must be above 0, found {value}")
    if value > 1:
        raise ConfigurationError(
            f"delta_ratio must be at most 1, found {value:g}. It is a fraction of the base's size:"
            f" {value:g} means {100 * value:,g} %. For {value:g} %, use {value / 100:g}"
        )


def check_also_when(name: str, limit: float) -> None:
    """Raise a ConfigurationError if a further threshold is unknown, not above 0, or not whole.

    Only an age need not be whole.
    """
    names = [threshold.value for threshold in ALSO_WHEN]
    if name not in names:
        raise ConfigurationError(
            f"also_when has no threshold {name!r}; allowed are {', '.join(names)}"
        )
    if not 0 < limit < float("inf"):  # this form of the comparison also rejects NaN
        raise ConfigurationError(f"{name} in also_when must be above 0, found {limit}")
    if Threshold(name) not in _OF_AGES and limit != int(limit):
        raise ConfigurationError(f"{name} in also_when must be a whole number, found {limit}")


def limit_text(threshold: Threshold, limit: float) -> str:
    """Return one of the further thresholds of a compaction, as in `200 small files`."""
    if threshold is Threshold.OLDEST_ABORTED_S:
        return f"an aborted write of {age_text(limit)} ago"
    if threshold is Threshold.OLDEST_DELTA_S:
        return f"a delta of {age_text(limit)} ago"
    return f"{limit:.0f} {_NOUNS[threshold]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """The measurements of the directory of a table or partition.

    `base` is the name of the visible base; `base_bytes` is its size, or that of the original files.
    Only visible deltas are counted. `obsolete` and `aborted` count the directories that the cleaner
    has not removed yet. `small_files` are visible data files below `SMALL_FILE_BYTES`, or below the
    size that was passed to `of`. `mergeable_files` and `mergeable_delta_files` are those that a
    major and a minor compaction would merge away; none in a base without deltas, which no
    compaction rewrites. `deleted_rows` are the visible delete events; None if not counted.
    `aborted_writes` are those that a major compaction would cover. `oldest_aborted_s` and
    `oldest_delta_s` are the ages of the oldest of them, and of the oldest visible delta or delete
    delta, by the files' modification times; None if there is none, or its time is unknown.
    """

    table: str
    location: str
    partition: str = ""
    base: str | None = None
    base_bytes: int = 0
    original_files: int = 0
    deltas: int = 0
    delete_deltas: int = 0
    delta_bytes: int = 0
    delete_delta_bytes: int = 0
    obsolete: int = 0
    aborted: int = 0
    small_files: int = 0
    mergeable_files: int = 0
    mergeable_delta_files: int = 0
    deleted_rows: int | None = None
    aborted_writes: int = 0
    oldest_aborted_s: float | None = None
    oldest_delta_s: float | None = None

    @classmethod
    def of(  # noqa: PLR0913 - names, and what the listing does not say
        cls,
        state: AcidState,
        *,
        table: str = "",
        partition: str = "",
        kind: TransactionalKind = TransactionalKind.FULL_ACID,
        small_file_bytes: int = SMALL_FILE_BYTES,
        now_s: float | None = None,
    ) -> TableHealth:
        """Return the measurements of a directory's ACID state.

        A file below `small_file_bytes` counts as small. Without the time `now_s`, in seconds since
        1970, no ages are measured.
        """
        base = state.base
        of_base = (*state.originals, *(base.files if base else ()))
        inserts, deletes = (
            [file for delta in deltas for file in delta.files]
            for deltas in (state.deltas, state.delete_deltas)
        )
        merges = partial(mergeable, kind=kind, small_file_bytes=small_file_bytes)
        visible = [*of_base, *inserts, *deletes]
        changes = (*state.deltas, *state.delete_deltas)
        written = [delta.modified_s for delta in changes if delta.modified_s is not None]
        originals = sum(file.size_bytes for file in state.originals)
        is_base_alone = not changes and not state.originals
        return cls(
            table=table,
            location=state.location,
            partition=partition,
            base=base.text if base else None,
            base_bytes=base.size_bytes if base else originals,
            original_files=len(state.originals),
            deltas=len(state.deltas),
            delete_deltas=len(state.delete_deltas),
            delta_bytes=sum(delta.size_bytes for delta in state.deltas),
            delete_delta_bytes=sum(delta.size_bytes for delta in state.delete_deltas),
            obsolete=len(state.obsolete),
            aborted=len(state.aborted),
            small_files=sum(1 for file in visible if file.size_bytes < small_file_bytes),
            mergeable_files=0 if is_base_alone else merges(visible),
            mergeable_delta_files=merges(inserts) + merges(deletes),
            aborted_writes=state.aborted_writes.number,
            oldest_aborted_s=_age(state.aborted_writes.since_s, now_s),
            oldest_delta_s=_age(min(written, default=None), now_s),
        )

    @property
    def delta_count(self) -> int:
        """Number of visible delta and delete delta directories."""
        return self.deltas + self.delete_deltas

    @property
    def changed_bytes(self) -> int:
        """Bytes in all visible deltas and delete deltas."""
        return self.delta_bytes + self.delete_delta_bytes

    @property
    def delta_ratio(self) -> float | None:
        """Bytes of all visible deltas as a fraction of the base's bytes; None without a base."""
        return self.changed_bytes / self.base_bytes if self.base_bytes else None

    def record(self) -> dict[str, Scalar]:
        """Return all measurements as plain JSON values, for an XCom or an event."""
        return {**asdict(self), "delta_count": self.delta_count, "delta_ratio": self.delta_ratio}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """A threshold that was reached, with the measured value.

    `origin` names the table parameter that sets the threshold, or is empty.
    """

    threshold: Threshold
    measured: float
    limit: float
    origin: str = ""

    def __str__(self) -> str:
        origin = _by(self.origin)
        if self.threshold is Threshold.DELTA_RATIO:
            measured, limit = 100 * self.measured, 100 * self.limit
            return f"deltas hold {measured:.1f} % of the base (threshold {limit:.1f} %{origin})"
        text = _measured_text(self.threshold, self.measured)
        limit_ = age_text(self.limit) if self.threshold in _OF_AGES else f"{self.limit:.0f}"
        return f"{text} (threshold {limit_}{origin})"


def _measured_text(threshold: Threshold, measured: float) -> str:
    sentence = _OF_AGES.get(threshold)
    if sentence is not None:
        return sentence.format(age_text(measured))
    return f"{measured:.0f} {_NOUNS[threshold]}"


def exceeded(health: TableHealth, policy: CompactionPolicy) -> tuple[Exceeded, ...]:
    """Return the thresholds that a directory has reached; the ratio comes first, then the count.

    Without a base, or with an empty one, the ratio does not apply, as in Hive's
    Initiator.determineCompactionType: else the first insert into a table would compact it.
    """
    return reached({**of_deltas(health), **_also_measured(health)}, policy.limits, policy.origins)


def reached(
    measured: Mapping[Threshold, Measured],
    limits: Mapping[Threshold, float],
    origins: Mapping[Threshold, str],
) -> tuple[Exceeded, ...]:
    """Return the limits that are reached, in their order; `origins` as `Exceeded.origin`.

    The arithmetic is exact: with the float 0.1, a ratio of exactly 10 % might not reach the limit.
    """
    return tuple(
        Exceeded(
            threshold=threshold,
            measured=float(value) if isinstance(value, Fraction) else value,
            limit=limit,
            origin=origins.get(threshold, ""),
        )
        for threshold, limit in limits.items()
        if (value := measured.get(threshold)) is not None and value >= Fraction(str(limit))
    )


def of_deltas(health: TableHealth) -> dict[Threshold, Measured]:
    """Return the number of deltas, and their size as a fraction of the base's."""
    base_bytes = health.base_bytes
    return {
        Threshold.DELTA_RATIO: Fraction(health.changed_bytes, base_bytes) if base_bytes else None,
        Threshold.DELTA_COUNT: health.delta_count,
    }


def _also_measured(health: TableHealth) -> dict[Threshold, float | None]:
    return {
        Threshold.ABORTED_TRANSACTIONS: health.aborted_writes,
        Threshold.OLDEST_ABORTED_S: health.oldest_aborted_s,
        Threshold.DELETED_ROWS: health.deleted_rows,
        Threshold.SMALL_FILES: health.mergeable_files,
        Threshold.OLDEST_DELTA_S: health.oldest_delta_s,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDirectory:
    """A directory that needs compaction, and the thresholds that it has reached."""

    health: TableHealth
    reached: tuple[Exceeded, ...]

    def record(self) -> dict[str, Scalar]:
        """Return the measurements and `why` as plain JSON values, for an XCom or an event."""
        return {**self.health.record(), "why": " and ".join(str(e) for e in self.reached)}


def due(healths: Iterable[TableHealth], policy: CompactionPolicy) -> tuple[DueDirectory, ...]:
    """Return the directories that have reached a threshold, in the given order."""
    judged = (DueDirectory(health=health, reached=exceeded(health, policy)) for health in healths)
    return tuple(finding for finding in judged if finding.reached)


def decide(health: TableHealth, policy: CompactionPolicy) -> tuple[bool | None, str]:
    """Return the due compaction (True: major, False: minor, None: no compaction), and why.

    As in Hive's Initiator, the ratio and the number of aborted transactions require a major
    compaction; the count requires a minor one, or a major one if there is no base. Small files
    require a minor compaction if it merges enough of them. Everything else requires a major one,
    because after a minor one, the threshold would be reached again.
    """
    causes = exceeded(health, policy)
    why = " and ".join(map(str, causes))
    if not causes:
        return None, _below(health, policy)
    if not all(_is_minor_enough(cause, health) for cause in causes):
        return True, why
    if not health.base_bytes:
        return True, f"{why} and no base"
    return False, why


def _is_minor_enough(cause: Exceeded, health: TableHealth) -> bool:
    match cause.threshold:
        case Threshold.DELTA_COUNT:
            return True
        case Threshold.SMALL_FILES:
            # A minor compaction joins directories, so one delta stays as it is.
            is_possible = max(health.deltas, health.delete_deltas) > 1
            return is_possible and health.mergeable_delta_files >= cause.limit
        case _:
            return False


def _below(health: TableHealth, policy: CompactionPolicy) -> str:
    ratio = health.delta_ratio
    share = "no base to compare with" if ratio is None else f"{100 * ratio:.1f} % of the base"
    # Every reader knows the defaults and the task's arguments, but not the table's parameters.
    is_own = policy.count_origin or policy.ratio_origin
    limits = f"thresholds ({policy})" if is_own else "thresholds"
    measured = _also_measured(health)
    also = (_measured_text(t, value) for t in policy.also_when if (value := measured[t]))
    values = ", ".join((f"{health.delta_count} delta directories", share, *also))
    return f"below the {limits}: {values}"


def _age(since_s: float | None, now_s: float | None) -> float | None:
    return None if since_s is None or now_s is None else max(0.0, now_s - since_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """The state of a table that needs compaction, at the time of an event or of a poll.

    `table_id` distinguishes the table from an earlier one of the same name. `write_id` is the
    highest that a compaction may cover. `at_s` is in seconds since 1970. `ended_entry` is the ID of
    the newest compaction in the queue that has succeeded or failed: 0 if none has, None if the
    queue could not be read. `is_compacting` is true if a compaction is waiting or at work.
    """

    table_id: str
    write_id: int
    at_s: float
    ended_entry: int | None
    is_compacting: bool = False


def fires(last: Firing | None, now: Firing, *, refire_after_s: float) -> bool:
    """Return whether a table gets an event; without `last`, it has needed no compaction before."""
    if last is None or last.table_id != now.table_id:
        return True
    # A negative elapsed time means that the clock was set back.
    if not 0 <= now.at_s - last.at_s < refire_after_s:
        return True
    return _has_compaction_ended(last, now) and now.write_id > last.write_id


def can_fire(last: Firing | None, now: Firing, *, refire_after_s: float) -> bool:
    """Return false if `fires` would be false for every state of the compaction queue."""
    if last is None:
        return True
    newer = replace(now, ended_entry=(last.ended_entry or 0) + 1, is_compacting=False)
    return fires(last, newer, refire_after_s=refire_after_s)


def _has_compaction_ended(last: Firing, now: Firing) -> bool:
    if last.ended_entry is None or now.ended_entry is None or now.is_compacting:
        return False
    # A compaction that was at work at the last event may have a lower ID than an ended compaction.
    return last.is_compacting or now.ended_entry > last.ended_entry
