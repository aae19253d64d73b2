"""Every saved copy of a table's life equals its read as of then, or is refused: never a near miss.

A life has writes that commit in any order, overwrites, minor and major compactions, and cleaners
that die after any part of what they wanted to remove. The copy at each commit is the model's; it
knows of no directories.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from airflow_hiveacid.format import errors, versions
from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.records import TimeBounds
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, ValidWriteIdList
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.plan.history import Allocation, Knowledge, Sighting, as_of_time

FULL, INSERT_ONLY = TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY

Row = tuple[int, int]
Event = tuple[Row, int]
"""A row's identity, and the write ID of what happened to it."""


@dataclass
class Life:
    """A table of one root: its directories, its write IDs and what it was after each commit."""

    kind: TransactionalKind
    contents: dict[str, list[Event]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    is_open: dict[int, str] = field(default_factory=dict)
    done: list[tuple[int, str]] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    rows: dict[int, list[Row]] = field(default_factory=dict)
    deleted: dict[int, list[Row]] = field(default_factory=dict)
    overwrites: set[int] = field(default_factory=set)
    newest: int = 0
    kept: versions.Guarantee | None = None
    horizon: int = 0

    # ---- what is there ----

    def listing(self) -> Listing:
        files = tuple(FileEntry(path=f"{d}/bucket_00000", size_bytes=1) for d in self.contents)
        return Listing(location="/t", files=files, metadata=dict(self.metadata))

    def now(self) -> ValidWriteIdList:
        return ValidWriteIdList(
            table=TableRef("d", "t"),
            high_watermark=WriteId(self.newest),
            open=tuple(map(WriteId, self.is_open)),
            aborted=tuple(map(WriteId, self.aborted)),
        )

    def state(self) -> AcidState:
        return resolve(self.listing(), self.now(), None, self.kind)

    def read(self, state: AcidState, write_ids: ValidWriteIdList) -> list[Row]:
        def events(directory: str) -> list[Event]:
            every = self.contents[directory]
            if self.kind is INSERT_ONLY:
                return every  # nothing tells them apart
            return [(row, w) for row, w in every if write_ids.is_visible(WriteId(w))]

        inserts = [] if state.base is None else self.contents[state.base.text]
        inserts = [*inserts, *(e for d in state.deltas for e in events(d.text))]
        gone = {row for d in state.delete_deltas for row, _ in events(d.text)}
        return sorted(row for row, _ in inserts if row not in gone)

    def promise(self) -> versions.Guarantee | None:
        if self.kept is None:
            return None
        floor = WriteId(max(self.kept.floor, self.horizon))
        return versions.Guarantee(floor=floor, evidence=self.kept.evidence)

    # ---- what it should be ----

    def copy(self, committed: set[int]) -> list[Row]:
        start = max((w for w in committed if w in self.overwrites), default=0)
        counted = [w for w in committed if w >= start]
        gone = {row for w in counted for row in self.deleted.get(w, [])}
        return sorted(row for w in counted for row in self.rows.get(w, []) if row not in gone)

    # ---- what happens ----

    def begin(self, action: str, victims: list[Row]) -> None:
        self.newest += 1
        w = self.newest
        self.is_open[w] = action
        self.rows[w] = [(w, 0), (w, 1)] if action != "delete" else []
        if action == "overwrite":
            self.overwrites.add(w)
            self.contents[str(BaseName(write_id=WriteId(w)))] = [(r, w) for r in self.rows[w]]
            return
        name = DeltaName(low=WriteId(w), high=WriteId(w), statement_id=StatementId(0))
        if self.rows[w]:
            self.contents[str(name)] = [(r, w) for r in self.rows[w]]
        if action in {"delete", "update"} and victims:
            self.deleted[w] = victims
            dead = DeltaName(
                low=name.low, high=name.high, statement_id=name.statement_id, is_delete=True
            )
            self.contents[str(dead)] = [(r, w) for r in victims]

    def compact(self, *, is_major: bool) -> None:
        own = CompactorWriteIdList.of(self.now())
        state = resolve(self.listing(), own, None, self.kind)
        inputs = (*state.deltas, *state.delete_deltas)
        if len({d.text for d in inputs}) < 2:
            return
        high = max(d.high for d in inputs)
        if is_major:
            name = BaseName(write_id=high)
            if str(name) in self.contents:
                return
            live = self.read(state, own)
            every = [e for d in state.live for e in self.contents[d.text]]
            own_rows = {row: w for row, w in every if row[0] == w}
            self.contents[str(name)] = [(row, own_rows[row]) for row in live]
            self.metadata[str(name)] = "compacted"
            return
        low = min(d.name.low for d in inputs if isinstance(d.name, DeltaName))
        for chosen, is_delete in ((state.deltas, False), (state.delete_deltas, True)):
            if chosen:
                pair = DeltaName(low=low, high=high, is_delete=is_delete)
                every = [e for d in chosen for e in self.contents[d.text]]
                self.contents[str(pair)] = [e for e in every if own.is_visible(WriteId(e[1]))]

    def clean(self, draw: st.DrawFn) -> None:
        """Remove any part of what nobody needs now; who promised something says so before."""
        state = self.state()
        dead = [d for d in state.obsolete_directories if d.superseded_by is not None]
        gone = draw(st.lists(st.sampled_from(dead), unique_by=id)) if dead else []
        if self.kept is not None and gone:
            bases = sorted(
                d.high
                for d in (state.base, *state.obsolete_directories)
                if d is not None and d.is_base
            )
            for directory in gone:
                cover = [
                    b
                    for b in bases
                    if b >= directory.high and (not directory.is_base or b > directory.high)
                ]
                if cover:
                    self.horizon = max(self.horizon, cover[0])
                elif self.kind is INSERT_ONLY:
                    winner = parse_directory_name(str(directory.superseded_by))
                    assert isinstance(winner, DeltaName)
                    self.horizon = max(self.horizon, winner.high)
        for directory in gone:
            del self.contents[directory.text]
            self.metadata.pop(directory.text, None)
        for directory in state.aborted:
            self.contents.pop(directory.text, None)


def end_one(draw: st.DrawFn, life: Life, committed: set[int]) -> None:
    w = draw(st.sampled_from(sorted(life.is_open)))
    fate = draw(st.sampled_from(["committed", "committed", "committed", "aborted"]))
    if any(o in life.overwrites and o > w for o in committed):
        fate = "aborted"  # whom an overwrite hides begins anew
    if life.deleted.get(w) and not {*life.deleted[w]} <= {*life.copy(committed)}:
        fate = "aborted"  # somebody else has changed the same rows
    del life.is_open[w]
    life.done.append((w, fate))
    if fate == "aborted":
        life.aborted.add(w)


def begin_one(draw: st.DrawFn, life: Life, committed: set[int]) -> None:
    actions = ["insert", "insert", "overwrite"]
    actions += ["delete", "update"] if life.kind is FULL else []
    rows = life.copy(committed)
    few = st.lists(st.sampled_from(rows), unique=True, max_size=2) if rows else st.just([])
    life.begin(draw(st.sampled_from(actions)), draw(few))


STEPS = ("begin", "begin", "end", "end", "minor", "major", "clean", "keep")


@st.composite
def lives(draw: st.DrawFn) -> Life:
    life = Life(kind=draw(st.sampled_from([FULL, FULL, INSERT_ONLY])))
    for _ in range(draw(st.integers(4, 22))):
        step = draw(st.sampled_from(STEPS))
        committed = {w for w, fate in life.done if fate == "committed"}
        if step == "begin":
            begin_one(draw, life, committed)
        elif step == "end" and life.is_open:
            end_one(draw, life, committed)
        elif step in {"minor", "major"}:
            life.compact(is_major=step == "major")
        elif step == "clean":
            life.clean(draw)
        elif step == "keep" and life.kept is None:
            life.kept, life.horizon = versions.floor_of(life.state(), life.kind), 0
    return life


def copies(life: Life) -> list[tuple[int, set[int]]]:
    """After how many ends of transactions what was committed."""
    found, committed = [], set[int]()
    for moment, (w, fate) in enumerate(life.done, 1):
        if fate == "committed":
            committed = {*committed, w}
        found.append((moment, committed))
    return found


def read_as_of(life: Life, then: ValidWriteIdList) -> list[Row]:
    state = versions.state_as_of(
        life.listing(), now=life.now(), then=then, txns=None, kind=life.kind, kept=life.promise()
    )
    return life.read(state, then)


def read_or_refused(
    life: Life, then: ValidWriteIdList
) -> tuple[list[Row], errors.VersionGoneError | None]:
    try:
        return read_as_of(life, then), None
    except errors.VersionGoneError as error:
        return [], error


@pytest.mark.promise("V6")
@given(lives())
@settings(max_examples=settings.default.max_examples * 3, deadline=None)
def test_a_read_of_a_past_state_equals_its_saved_copy_or_is_refused(life: Life) -> None:
    now = life.now()
    for _, committed in copies(life):
        left_out = {WriteId(w) for w, fate in life.done if fate == "committed"} - committed
        then = versions.as_of_set(now, left_out)
        rows, refusal = read_or_refused(life, then)
        if refusal is None:
            assert rows == life.copy(committed)
        else:
            kept = life.promise()
            assert kept is None or versions.omits(now, then, WriteId(1), kept.floor)


@pytest.mark.promise("V6")
@given(lives())
@settings(max_examples=settings.default.max_examples * 2, deadline=None)
def test_a_version_contains_exactly_the_writes_committed_up_to_its_number(life: Life) -> None:
    now, committed = life.now(), {w for w, fate in life.done if fate == "committed"}
    oldest = versions.oldest_readable(life.state(), life.promise(), life.kind)
    first_open = min((*life.is_open, life.newest + 1))
    for number in range(first_open, life.newest + 1):
        with pytest.raises(
            errors.VersionNotSettledError, match=f"write ID {first_open} is still open"
        ):
            versions.as_of_number(now, WriteId(number))
    for number in range(1, first_open):
        rows, refusal = read_or_refused(life, versions.as_of_number(now, WriteId(number)))
        if refusal is None:
            assert rows == life.copy({w for w in committed if w <= number})
        else:
            assert refusal.oldest == oldest
            assert number < oldest or life.kind is INSERT_ONLY


@given(lives())
@settings(max_examples=settings.default.max_examples * 3 // 2, deadline=None)
def test_the_oldest_readable_version_is_readable(life: Life) -> None:
    oldest = versions.oldest_readable(life.state(), life.promise(), life.kind)
    if oldest <= life.newest and not any(w <= oldest for w in life.is_open):
        read_as_of(life, versions.as_of_number(life.now(), oldest))


@given(lives(), st.data())
@settings(max_examples=settings.default.max_examples, deadline=None)
def test_a_read_by_time_is_exact_or_raises_an_error_about_doubtful_writes(
    life: Life, data: st.DataObject
) -> None:
    """Commits happen at 10, 20, 30 ...; some are known to the second, others were only seen."""
    ends = {w: 10.0 * at for at, (w, _) in enumerate(life.done, 1)}
    committed = [w for w, fate in life.done if fate == "committed"]
    ours = data.draw(st.sets(st.sampled_from(committed))) if committed else set()
    sightings = []
    for at, seen in copies(life):
        if data.draw(st.booleans()):
            opened = [w for w in life.rows if w not in ends or ends[w] > 10.0 * at]
            high = max((*seen, 0))
            write_ids = ValidWriteIdList(
                table=TableRef("d", "t"),
                high_watermark=WriteId(high),
                open=tuple(WriteId(w) for w in opened if w <= high),
                aborted=tuple(WriteId(w) for w in life.aborted if w <= high and w not in opened),
            )
            sightings.append(
                Sighting(write_ids=write_ids, after_s=10.0 * at + 1, by_s=10.0 * at + 2)
            )
    known = Knowledge(
        commits={WriteId(w): TimeBounds(after_s=ends[w] - 1, by_s=ends[w] + 1) for w in ours},
        sightings=tuple(sightings),
    )
    now, last = life.now(), 10.0 * len(life.done) + 5
    for at, seen in [(0, set[int]()), *copies(life)]:
        when = datetime.fromtimestamp(10.0 * at + 5, UTC)
        expected = versions.as_of_set(
            now, {WriteId(w) for w in committed} - {WriteId(w) for w in seen}
        )
        try:
            then = as_of_time(now, when, known, taken_s=last)
        except errors.VersionDoubtfulError:
            found = known.at(when.timestamp(), now)
            doubtful = {*found.unknown, *found.doubtful}
            assert doubtful - {WriteId(w) for w in committed if w not in ours} == set()
        else:
            for w in committed:
                assert then.is_visible(WriteId(w)) == expected.is_visible(WriteId(w)) == (w in seen)


@given(lives())
@settings(max_examples=settings.default.max_examples * 4 // 5, deadline=None)
def test_every_past_state_is_known_if_all_commit_times_are_known(life: Life) -> None:
    ends = {w: 10.0 * at for at, (w, _) in enumerate(life.done, 1)}
    committed = {w for w, fate in life.done if fate == "committed"}
    known = Knowledge(
        commits={WriteId(w): TimeBounds(after_s=ends[w] - 1, by_s=ends[w] + 1) for w in committed},
        allocations=tuple(
            Allocation(write_id=WriteId(w), after_s=0.5 * w) for w in sorted(committed)
        ),
    )
    for at, seen in copies(life):
        when = datetime.fromtimestamp(10.0 * at + 5, UTC)
        then = as_of_time(life.now(), when, known, taken_s=1e9)
        assert {w for w in committed if then.is_visible(WriteId(w))} == seen


@given(lives())
@settings(max_examples=settings.default.max_examples * 3 // 5, deadline=None)
def test_a_later_version_sees_all_writes_of_an_earlier_version(life: Life) -> None:
    now = life.now()
    settled = min((*life.is_open, life.newest + 1))
    lists = [versions.as_of_number(now, WriteId(n)) for n in range(1, settled)]
    for one, next_ in pairwise(lists):
        assert not versions.omits(next_, one, WriteId(1), one.high_watermark)
    for then in lists:
        for w in range(1, life.newest + 2):
            assert now.is_visible(WriteId(w)) or not then.is_visible(WriteId(w))
