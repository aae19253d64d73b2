"""Old faults, put back one by one: each has to be found.

A fault is a change of the text of a function or two, as somebody could make it by mistake. It is
looked for by random schedules of a small cast, as many as it takes, up to a bound.
"""

from __future__ import annotations
import __future__

import functools
import inspect
import sys
import textwrap
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import pytest

from airflow_hiveacid.format.state import change_range as changes
from airflow_hiveacid.format.state import versions
from airflow_hiveacid.maintenance import clean
from airflow_hiveacid.metastore.transactions import compaction_work, fencing, handover, transaction
from airflow_hiveacid.plan import cleaning
from airflow_hiveacid.spark.maintenance import compact
from airflow_hiveacid.storage.stores import filesystem
from airflow_hiveacid.storage.stores.notes import job_ledger
from airflow_hiveacid.versions import past
from airflow_hiveacid.writing import publish, replacement, table_write, write
from tests.interleavings.hives import NULL_PASSES
from tests.interleavings.scene import Scene
from tests.interleavings.schedules import InterleavingError, Plan, at_random, perform

_MOST: Final = 3000
_FEW: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What becomes of some text of a function of a module, or of a method of its class."""

    module: ModuleType
    where: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Edits, and the cast that shows what they spoil; also plans, where chance is too slow.

    There are several of them, so that one call more or less in the product changes nothing.
    """

    name: str
    scene: str
    edits: tuple[Edit, ...]
    plans: tuple[str, ...] = ()


def put(fault: Fault, patch: pytest.MonkeyPatch) -> None:
    """Make the edits, for as long as the patch lasts."""
    texts: dict[tuple[ModuleType, str], str] = {}
    for edit in fault.edits:
        key = edit.module, edit.where
        text = texts.get(key) or _text_of(*key)
        assert text.count(edit.old) == 1, f"{edit.where} is not what it was"
        texts[key] = text.replace(edit.old, edit.new)
    for (module, where), text in texts.items():
        made: dict[str, Any] = {}
        flags = __future__.annotations.compiler_flag
        code = compile(text, where, "exec", flags=flags, dont_inherit=True)
        exec(code, vars(module), made)  # noqa: S102 -- the point of these tests
        *path, name = where.split(".")
        old = inspect.getattr_static(_holder(module, path), name)
        patch.setattr(_holder(module, path), name, made[name])
        for other in list(sys.modules.values()):  # who has imported it by its name
            is_ours = getattr(other, "__name__", "").startswith("airflow_hiveacid.")
            if is_ours and vars(other).get(name) is old:
                patch.setattr(other, name, made[name])


def _holder(module: ModuleType, path: list[str]) -> object:
    return functools.reduce(getattr, path, module)


def _text_of(module: ModuleType, where: str) -> str:
    *path, name = where.split(".")
    found = inspect.getattr_static(_holder(module, path), name)
    function = found.fget if isinstance(found, property) else found
    return textwrap.dedent(inspect.getsource(function))


_METHODS: Final = {
    name: inspect.getsource(method)
    for name, method in vars(compact.Compactor).items()
    if inspect.isfunction(method) and method.__code__.co_filename == compact.__file__
}
_PUBLISHES: Final = next(
    f"Compactor.{name}" for name, text in _METHODS.items() if "txn.lock_reads()" in text
)
_COMPARES: Final = next(
    f"Compactor.{name}"
    for name, text in _METHODS.items()
    if "live_names(plan.state)" in text and "valid_txns()" in text
)
_DOES_NOT_COMPARE: Final = Edit(
    module=compact,
    where=_COMPARES,
    old="    txns = self.client.valid_txns()\n",
    new="    return None\n",
)
_MARKED_TOO_SOON: Final = (
    Fault(
        name="an entry is marked before its compaction is committed",
        scene="v4 : minor hivecleaner read",
        plans=tuple(f"2 {at}:s0 {at + n}:s1" for at in range(11, 22) for n in range(60, 78)),
        edits=(
            Edit(
                module=compact,
                where=_PUBLISHES,
                old="notes.note_highest_write_id(claim.entry_id, plan.high)",
                new="notes.note_highest_write_id(claim.entry_id, plan.high)\n"
                "        self.client.mark_compacted(claim)",
            ),
        ),
    ),
)
FAULTS: Final = (
    Fault(
        name="a cleaner does not confirm the writer whose files it removes",
        scene="v4 : insert overwrite clean",
        plans=tuple(f"0 {at}:k" for at in range(30, 50)),
        edits=(
            Edit(
                module=job_ledger,
                where="Ledger.confirm_committed",
                old="for entry in unconfirmed:",
                new="for entry in ():",
            ),
        ),
    ),
    Fault(
        name="an insert does not look for a newer base",
        scene="v4 : insert overwrite",
        edits=(
            Edit(
                module=table_write,
                where="TableWrite.check_not_overtaken",
                old="if path is not None:",
                new="if False:",
            ),
        ),
    ),
    Fault(
        name="a failed publication takes back what it has not renamed",
        scene="v4 has_strangers : insert update",
        edits=(
            Edit(
                module=publish,
                where="check_free",
                old="if exists(*open_location(directory.final_path)):",
                new="if False:",
            ),
            Edit(
                module=publish,
                where="Publication._publish_one",
                old="self._tried.remove(directory)",
                new="pass",
            ),
            Edit(
                module=publish,
                where="_take_back_one",
                old="if exists(*open_location(staging.path_for(directory.directory))):",
                new="if False:",
            ),
            Edit(
                module=publish,
                where="_put_back_one",
                old="if exists(fs, staged):",
                new="if False:",
            ),
        ),
    ),
    Fault(
        name="a ledger entry is withdrawn by its job's key",
        scene="v4 : insert insert/2",
        edits=(
            Edit(
                module=job_ledger,
                where="Ledger.withdraw",
                old="self._delete(entry_name(entry))",
                new="[self._delete(entry_name(e)) for e in self.entries(entry.job_key)]",
            ),
        ),
    ),
    Fault(
        name="nothing is taken back after a failed commit",
        scene="v4 : update update",
        edits=(
            Edit(
                module=transaction,
                where="MetastoreTransaction.commit",
                old="    except WriteConflictError:\n        self._take_back()\n",
                new="    except WriteConflictError:\n",
            ),
        ),
    ),
    Fault(
        name="a compaction leaves its dead siblings",
        scene="v4 only_hive_4 has_deletes : minor minor",
        plans=tuple(f"0 {at}:K" for at in range(60, 85)),
        edits=(
            Edit(
                module=replacement,
                where="Replacement.remove_dead_siblings",
                old="if name != _without_suffix(name) in ranges:",
                new="if False:",
            ),
        ),
    ),
    Fault(
        name="a cleaner takes its watermark before it lists",
        scene="v4 has_base : read overwrite clean clean",
        edits=(
            Edit(
                module=clean,
                where="Cleaner.clean",
                old="    state, listing = self._first_look(partition)\n",
                new="    txns = self.client.valid_txns()\n"
                "    state, listing = self._first_look(partition)\n",
            ),
            Edit(
                module=clean,
                where="Cleaner.clean",
                old="\n    txns = self.client.valid_txns()\n    readers = ",
                new="\n    readers = ",
            ),
        ),
    ),
    Fault(
        name="copies are ranked without their tries",
        scene="v4 : insert insert/2",
        edits=tuple(
            Edit(
                module=fencing,
                where=f"{who}.rank",
                old="return self.attempt.try_number,",
                new="return 0,",
            )
            for who in ("FencingToken", "Rival")
        ),
    ),
    Fault(
        name="a transaction is ended before the next one's locks stand",
        scene="v4 : update insert kill",
        edits=(
            Edit(
                module=handover,
                where="Handover.leave",
                old="self._left[txn_id] = undo",
                new="undo.close()",
            ),
        ),
    ),
    Fault(
        name="nobody asks after the work whether it still counts",
        scene="v4 : update insert",
        edits=(
            Edit(
                module=write,
                where="Write.verify",
                old="    self.txn.confirm_alive()\n",
                new="",
            ),
        ),
    ),
    Fault(
        name="changes are told from what a compaction has left",
        scene="v4 : insert major changes",
        edits=(
            Edit(
                module=changes,
                where="segments_of",
                old="if not part.count_within(_FIRST, oldest_since(listing, now, txns, kind)):",
                new="if True:",
            ),
        ),
    ),
    Fault(
        name="a past is read from what a cleaner has left",
        scene="v4 is_partitioned : insert major clean past",
        plans=("0 79:s3 81:s1 152:s2 166:s1",),
        edits=(
            Edit(
                module=versions,
                where="_not_live",
                old="if base_now != base_then:",
                new="if False:",
            ),
            Edit(
                module=past,
                where="Past.state",
                old="missed = missed or self.loss_detector.unproven(state, self.then)",
                new="pass",
            ),
        ),
    ),
    Fault(
        name="an entry that cannot be read is passed over",
        scene="v4 : insert insert/2",
        plans=tuple(f"0 {at}:s1 {at + n}:a" for at in range(34, 46) for n in (10, 11, 12)),
        edits=(
            Edit(
                module=job_ledger,
                where="Ledger._read",
                old="except FileNotFoundError:",
                new="except Exception:",
            ),
            Edit(
                module=job_ledger,
                where="Ledger._entries",
                old="            return None\n        self._keep(found, file.name",
                new="            continue\n        self._keep(found, file.name",
            ),
        ),
    ),
    Fault(
        name="a local directory goes file by file",
        scene="v4 local is_partitioned : minor clean",
        plans=tuple(f"0 {at}:z1 {at + n}:s0" for at in range(50, 72) for n in range(18, 26)),
        edits=(
            Edit(
                module=filesystem,
                where="delete_directory",
                old="not traits.deletes_at_once and traits.renames",
                new="False",
            ),
        ),
    ),
    Fault(
        name="a base has a plain name beside older readers",
        scene="v4 native : insert update major linger",
        edits=(
            Edit(
                module=compact,
                where="Compactor._has_older_readers",
                old="return bool(self.client.open_but_compactions() - {own})",
                new="return False",
            ),
        ),
    ),
    Fault(
        name="a compaction does not look again",
        scene="v3 : insert wipe major",
        edits=(
            Edit(
                module=compact,
                where="Compactor._is_pointless",
                old="    newest = work.txn.newest(table.ref)\n",
                new="    return False\n",
            ),
            _DOES_NOT_COMPARE,
        ),
    ),
    Fault(
        name="a compaction publishes without its lock",
        scene="v3 : insert wipe major",
        edits=(
            Edit(
                module=compact,
                where=_PUBLISHES,
                old="    txn.lock_reads()\n",
                new="",
            ),
        ),
    ),
    Fault(
        name="a compaction locks its table as long as it works",
        scene="v4 : insert minor overwrite",
        edits=(
            Edit(
                module=compaction_work,
                where="compacting",
                old="        presence=presence_of_compactions(table.ref),\n",
                new="",
            ),
        ),
    ),
    Fault(
        name="a snapshot is taken before the claim",
        scene="v4 only_hive_4 : insert hivemajor minor linger",
        edits=(
            Edit(
                module=compaction_work,
                where="CompactionWork.begin",
                old="self.snapshot = self.txn.newest(worker.ref).for_compactor()",
                new="self.snapshot = self.txn.snapshot.for_compactor()",
            ),
            _DOES_NOT_COMPARE,
        ),
    ),
    Fault(
        name="a cleaner does not look for tags",
        scene="v4 has_tag : insert major clean tagged",
        edits=(
            Edit(
                module=cleaning,
                where="held_by_tags",
                old="if root is not None and not tag.has_expired(now_s):",
                new="if False:",
            ),
        ),
    ),
    *(_MARKED_TOO_SOON if NULL_PASSES else ()),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name.replace(" ", "-"))
def test_each_fault_of_the_past_is_detected_if_it_is_put_back(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene.parse(fault.scene)
    for seed in range(_FEW):  # without the fault all is well
        at_random(scene, seed)
    put(fault, monkeypatch)
    with pytest.raises(InterleavingError):
        _look_for_it(fault, scene)


def _look_for_it(fault: Fault, scene: Scene) -> None:
    for plan in fault.plans:
        perform(scene, Plan.parse(plan))
    for seed in range(_MOST):
        at_random(scene, seed)
