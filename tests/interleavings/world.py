"""One world in which actors take turns: their threads, their clock, their metastore, their disk.

One actor runs at a time. Before each call of the metastore and each effect on the disk it comes to
a border; there the schedule may let it go on, hand over to another, kill it, let its process stand
still for longer than the server's patience, let the effect fail or its answer be lost, or start the
metastore again. What is not said by the schedule is the same every time, so the schedule is the
interleaving.

| at a border | means |
| --- | --- |
| `s2` | actor 2 goes on, this one waits here |
| `k`, `K` | this process dies; with `K` its transaction has timed out before anybody acts |
| `z2` | this process stands still until its transaction has timed out; actor 2 goes on |
| `b`, `a` | the effect fails, before or after it was done |
| `r` | the metastore is started again: each actor's next call finds no server |
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreUnavailableError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.locks import LockRequest
from airflow_hiveacid.metastore.port import TxnState, TxnType
from airflow_hiveacid.metastore.transactions.heartbeat import Heartbeat
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore, Lock, Txn
from tests.interleavings.disk import Disk, Effect

TIMEOUT_S: Final = 3.0
_BEGAN_S: Final = time.time()
_MOST_BORDERS: Final = 20_000
_PATIENCE_S: Final = 120.0  # of an interleaving, which takes milliseconds


class Killed(BaseException):
    """Ends an actor's thread; whatever it tries on its way out raises it again."""


class Schedule(Protocol):
    """Says what happens at a border."""

    def choose(self, world: World, border: Border) -> str:
        """One of the actions above, or nothing."""


@dataclass(slots=True)
class Border:
    """The moment before an effect. `is_local` says that nobody else could tell its order."""

    index: int
    actor: Actor
    what: str | Effect
    is_call: bool
    is_change: bool
    is_local: bool


@dataclass(eq=False, slots=True)
class Actor:
    """One process. Mutable: it runs."""

    number: int
    name: str
    body: Callable[[], object]
    is_steady: bool = False
    is_over: bool = False
    is_dead: bool = False
    is_cancelled: bool = False
    is_troubled: bool = False
    stays: bool = False
    loses_answer: bool = False
    worked: int = 0
    ended: int = 0
    finds_no_server: bool = False
    wakes_s: float = 0.0
    saw: int = 0
    snapshot: int = 0
    step: str = ""
    outcome: object = None
    error: BaseException | None = None
    foreign_txn: TxnId | None = None
    worker: _Worker | None = None

    def __str__(self) -> str:
        return f"{self.number}:{self.name}"

    def reach(self, step: str) -> None:
        """Note the product's step that it belongs to."""
        self.step = step


def _closed_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Worker:
    """A thread that plays one actor after another."""

    def __init__(self) -> None:
        self.turn = _closed_lock()
        self.world: World | None = None
        self.actor: Actor | None = None
        self.thread = threading.Thread(target=self._run, daemon=True, name="actor")
        self.thread.start()

    def _run(self) -> None:
        while True:
            self.turn.acquire()
            world, actor = self.world, self.actor
            assert world is not None
            assert actor is not None
            world.play(actor)
            self.world = self.actor = None
            world.pass_on()


_workers: list[_Worker] = []


@dataclass(eq=False, slots=True)
class Beats:
    """The heartbeat of a transaction, beaten by the world."""

    heartbeat: Heartbeat
    actor: Actor | None
    interval_s: float
    due_s: float


class Clock:
    """Time that stands still until somebody sleeps. Mutable."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.now_s = 1000.0
        self.beat_script: list[bool] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self._world.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Called by the beats alone: time for one, then for no more."""
        del event, seconds
        return self.beat_script.pop(0)


class Server(FakeMetastore):
    """The fake metastore, with a border at each call."""

    def __init__(self, world: World, generation: MetastoreGeneration) -> None:
        super().__init__(generation, world.clock, txn_timeout_s=TIMEOUT_S)
        self.guard = contextlib.nullcontext()  # type: ignore[assignment]
        self._world = world
        self._reaped_s = 0.0
        self._every: dict[TableRef, dict[TxnId, WriteId]] = {}
        self.has_locked: set[TxnId] = set()

    def clean_write_ids(self) -> None:
        for ref, known in self.write_ids.items():
            self._every.setdefault(ref, {}).update(known)
        super().clean_write_ids()

    @contextlib.contextmanager
    def remembering(self) -> Iterator[None]:
        """Every write ID that was ever given is known here, as if none had been forgotten."""
        known = self.write_ids
        refs = {*known, *self._every}
        self.write_ids = {r: {**self._every.get(r, {}), **known.get(r, {})} for r in refs}
        try:
            yield
        finally:
            self.write_ids = known

    def reap(self) -> None:
        if self._reaped_s != self.clock.monotonic():
            self._reaped_s = self.clock.monotonic()
            super().reap()

    def take_fault(self, method: str, *, is_done: bool) -> None:
        if is_done:
            self._world.after_call(method)
        else:
            self._world.before_call(method)
            self.reap()

    def open(self, user: str, txn_type: TxnType) -> TxnId:
        txn_id = super().open(user, txn_type)
        self._world.owners[txn_id] = self._world.speaker
        return txn_id

    def enqueue(self, request: LockRequest, user: str) -> Lock:
        self.has_locked.add(request.txn_id)
        lock = super().enqueue(request, user)
        self._world.on_waiting(lock)
        return lock

    def end(self, txn: Txn, state: TxnState) -> None:
        was_open = txn.state is TxnState.OPEN
        super().end(txn, state)
        if was_open:
            self._world.ended(txn)


_READS: Final = frozenset(
    {
        "get_table",
        "get_partitions",
        "list_partitions",
        "valid_txns",
        "valid_write_ids",
        "show_locks",
        "show_compactions",
        "open_txns_info",
    }
)


class World:
    """Everything that one interleaving happens in. Mutable."""

    def __init__(
        self,
        generation: MetastoreGeneration,
        schedule: Schedule,
        *,
        is_hdfs: bool = True,
        is_native: bool = False,
    ) -> None:
        self.clock = Clock(self)
        self.server = Server(self, generation)
        self.disk = Disk(
            before=self._before_effect,
            after=self._after_effect,
            now_s=self.now_s,
            is_hdfs=is_hdfs,
            is_native=is_native,
        )
        self.schedule = schedule
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.calm: Actor | None = None
        self.owners: dict[TxnId, Actor | None] = {}
        self.ended_at: dict[TxnId, int] = {}
        self.sequence = 0
        self.borders = 0
        self._log: list[tuple[int, Actor | None, object, str]] = []
        self.violation: str | None = None
        self.is_abandoned = False
        self.is_dirty = False
        self.on_change: Callable[[], None] = lambda: None
        self.on_ended: Callable[[Txn], None] = lambda _: None
        self.on_removal: Callable[[str], None] = lambda _: None
        self.on_publishing: Callable[[str], None] = lambda _: None
        self.on_waiting: Callable[[Lock], None] = lambda _: None
        self.beats: list[Beats] = []
        self._controller = _closed_lock()
        self._next: _Worker | None = None

    # What actors and checks ask

    @property
    def speaker(self) -> Actor | None:
        """Who acts now, also in the quiet after the interleaving."""
        return self.current or self.calm

    @property
    def log(self) -> list[str]:
        """What happened, border by border."""
        return [
            f"{index:4} {actor} {what}{'   <-- ' + action if action else ''}"
            if actor is not None
            else str(what)
            for index, actor, what, action in self._log
        ]

    def client(self) -> FakeClient:
        return FakeClient(self.server)

    def now_s(self) -> float:
        return _BEGAN_S + self.clock.now_s

    def fail(self, why: str) -> None:
        """The interleaving has shown a fault; nothing after it matters."""
        if self.violation is None:
            self.violation = why
            self._log.append((0, None, f"!! {why}", ""))
        for actor in self.actors:
            actor.is_dead = True

    def abandon(self) -> None:
        """End the interleaving, because it is one that the product assumes not to happen."""
        self.is_abandoned = True
        for actor in self.actors:
            actor.is_dead = True

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """What is done here meets no border, and the metastore leaves nothing out."""
        current, self.current = self.current, None
        try:
            with self.server.remembering():
                yield
        finally:
            self.current = current

    # Borders

    def before_call(self, method: str) -> None:
        actor = self.current
        if actor is None:
            return
        is_change = method not in _READS
        self._border(method, is_call=True, is_change=is_change, is_local=False)
        if actor.finds_no_server:
            actor.finds_no_server = False
            raise _no_answer(method)

    def after_call(self, method: str) -> None:
        speaker = self.speaker
        if speaker is not None and method == "valid_txns":
            speaker.saw = self.sequence
        self._after(_no_answer, method)

    def _before_effect(self, effect: Effect) -> None:
        actor = self.current
        if actor is not None:
            is_staging = "/_tmp_hiveacid_" in effect.path
            source = effect.path.partition(" ")[0]
            is_publishing = (
                effect.verb == "move" and "/_tmp_hiveacid_" in source and _is_seen(effect.path)
            )
            is_local = is_staging and not is_publishing
            self._border(effect, is_call=False, is_change=effect.is_change, is_local=is_local)
            if is_local and effect.is_change:
                actor.worked = self.borders
            if is_publishing:
                self.on_publishing(effect.path)
        if self.speaker is not None and (
            effect.verb == "remove"
            or (effect.verb == "move" and "_hiveacid_removed_" in effect.path)
        ):
            self.on_removal(effect.path.partition(" ")[0])

    def _after_effect(self, effect: Effect) -> None:
        if effect.is_change and _is_seen(effect.path):
            self.is_dirty = True
        self._after(_no_disk, effect.path)

    def _after(self, error: Callable[[str], Exception], what: str) -> None:
        actor = self.current
        if actor is not None and actor.loses_answer:
            actor.loses_answer = False
            raise error(what)

    def _border(
        self, what: str | Effect, *, is_call: bool, is_change: bool, is_local: bool
    ) -> None:
        actor = self.current
        assert actor is not None
        assert actor.worker is not None
        if threading.current_thread() is not actor.worker.thread:
            self.fail("a thread pool without a stand-in meets borders")
        if actor.is_dead:
            raise Killed
        if self.is_dirty:
            self.look()
        self.borders += 1
        if self.borders > _MOST_BORDERS:
            self.fail("it does not end")
        border = Border(self.borders, actor, what, is_call, is_change, is_local)
        action = self.schedule.choose(self, border)
        self._log.append((border.index, actor, what, action))
        if action:
            self._act(actor, border, action)
        if actor.is_dead:
            raise Killed

    def look(self) -> None:
        """Let the observers look, if anything has changed since they last did."""
        if self.is_dirty and self.violation is None:
            self.is_dirty = False
            with self.unseen():
                self.on_change()

    def _act(self, actor: Actor, border: Border, action: str) -> None:  # noqa: C901 -- arms
        verb, whom = action[0], action[1:]
        if verb in "ba":
            actor.is_troubled = True
        match verb:
            case "s":
                self._hand_over(actor, self.actors[int(whom)])
            case "k":
                actor.is_dead = True
            case "K":
                actor.is_dead = True
                self.pass_time(TIMEOUT_S + 0.1, silent=actor)
            case "z":
                self.pass_time(TIMEOUT_S + 0.1, silent=actor)
                self._hand_over(actor, self.actors[int(whom)])
            case "b":
                raise (_no_answer if border.is_call else _no_disk)(str(border.what))
            case "a":
                actor.loses_answer = True
            case "r":
                for other in self.actors:
                    other.finds_no_server = other.is_troubled = True
            case _:
                raise ValueError(action)

    # Time

    def sleep(self, seconds: float) -> None:
        actor = self.current
        if actor is None:
            self.pass_time(seconds)
            return
        if actor.is_dead:
            raise Killed
        actor.wakes_s = self.clock.now_s + seconds
        other = self._who_is_next(actor)
        if other is not actor:
            self._hand_over(actor, other)
        self._wake(actor)
        if actor.is_dead:
            raise Killed

    def pass_time(self, seconds: float, *, silent: Actor | None = None) -> None:
        """Let time pass; whoever is alive beats when it is time."""
        until_s = self.clock.now_s + seconds
        while True:
            alive = [b for b in self.beats if b.actor is None or self._beats(b.actor, silent)]
            due = min(alive, key=lambda b: b.due_s, default=None)
            if due is None or due.due_s > until_s:
                break
            self.clock.now_s = max(self.clock.now_s, due.due_s)
            self._beat(due)
        self.clock.now_s = max(self.clock.now_s, until_s)
        for beats in self.beats:
            beats.due_s = max(beats.due_s, self.clock.now_s)
        for actor in self.actors:
            txn = self.server.txns.get(actor.foreign_txn or 0)  # type: ignore[call-overload]
            stays = actor.stays and not actor.is_dead and actor is not silent
            if txn is not None and (stays or self._beats(actor, silent)):
                txn.heard_s = self.clock.now_s
        with self.unseen():
            self.server.reap()

    def _beats(self, actor: Actor, silent: Actor | None) -> bool:
        return actor is not silent and not actor.is_dead and not actor.is_over

    def _beat(self, beats: Beats) -> None:
        beats.due_s = self.clock.now_s + beats.interval_s
        self.clock.beat_script = [False, True]
        with self.unseen():
            beats.heartbeat._run()
        if beats.heartbeat.lost is not None:
            self.beats.remove(beats)

    # Turns

    def run(self, first: int = 0) -> None:
        """Let every actor come to its end."""
        while len(_workers) < len(self.actors):
            _workers.append(_Worker())
        for actor, worker in zip(self.actors, _workers, strict=False):
            actor.worker, worker.world, worker.actor = worker, self, actor
        self._start(self.actors[first])
        if not self._controller.acquire(timeout=_PATIENCE_S):
            _workers.clear()  # one of them may never come back
            self.fail("nobody goes on: one waits for what is no border, or its thread has died")
        self.current = None
        self.look()

    def play(self, actor: Actor) -> None:
        """In the actor's own thread: run it, and find who goes on."""
        try:
            if not actor.is_dead:
                actor.outcome = actor.body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 -- the edge of an actor's thread
            actor.error = error
        actor.is_over = True
        actor.ended = self.borders
        self.beats = [b for b in self.beats if b.actor is not actor]
        self._next = self._worker_of(self._who_is_next(actor))

    def pass_on(self) -> None:
        """In the actor's own thread, when it is free for another world."""
        following, self._next = self._next, None
        if following is None:
            self._controller.release()
        else:
            following.turn.release()

    def _worker_of(self, actor: Actor) -> _Worker | None:
        if actor.is_over:
            return None
        self._wake(actor)
        self.current = actor
        return actor.worker

    def _start(self, actor: Actor) -> None:
        self.current = actor
        assert actor.worker is not None
        actor.worker.turn.release()

    def _hand_over(self, actor: Actor, other: Actor) -> None:
        if other is actor or other.is_over:
            return
        self._wake(other)
        assert actor.worker is not None
        self._start(other)
        actor.worker.turn.acquire()
        self.current = actor

    def _who_is_next(self, actor: Actor) -> Actor:
        """The next one in the round that is not asleep; else the one that wakes first."""
        count = len(self.actors)
        ring = [self.actors[(actor.number + i) % count] for i in range(1, count + 1)]
        alive = [a for a in ring if not a.is_over]
        awake = [a for a in alive if a.wakes_s <= self.clock.now_s]
        return (awake or sorted(alive, key=lambda a: a.wakes_s) or [actor])[0]

    def _wake(self, actor: Actor) -> None:
        if actor.wakes_s > self.clock.now_s:
            self.pass_time(actor.wakes_s - self.clock.now_s)

    def ended(self, txn: Txn) -> None:
        """Called by the server when a transaction has ended."""
        self.is_dirty = True
        self.ended_at[txn.txn_id] = self.borders
        if txn.state is TxnState.COMMITTED:
            self.sequence += 1
        self.on_ended(txn)


def _is_seen(path: str) -> bool:
    """Whether readers could notice; `path` holds both ends of a move."""
    return any("/_tmp_" not in end and "/_hiveacid" not in end for end in path.split(" "))


def _no_answer(method: str) -> MetastoreUnavailableError:
    return MetastoreUnavailableError(uris=("thrift://lab",), method=method, reason="no answer")


def _no_disk(path: str) -> OSError:
    return OSError(errno.EIO, f"injected: {path}")


@dataclass
class Fixed:
    """A schedule that is written down: actions by the number of their border."""

    actions: dict[int, str] = field(default_factory=dict)

    def choose(self, world: World, border: Border) -> str:
        del world
        return self.actions.get(border.index, "")
