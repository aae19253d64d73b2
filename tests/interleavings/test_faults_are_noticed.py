"""Old faults, put back one by one: each has to be found.

A fault is a change of the text of a function or two, as somebody could make it by mistake. It is
looked for by random schedules of a small cast, as many as it takes, up to a bound.
"""

from __future__ import annotations
import __future__

import functools
import importlib
import inspect
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from airflow_hiveacid.writing import compaction
from tests.interleavings.hives import NULL_PASSES
from tests.interleavings.scene import Scene
from tests.interleavings.schedules import InterleavingError, Plan, at_random, perform

_MOST: Final = 3000
_FEW: Final = 10


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
    for name, method in vars(compaction.Compactor).items()
    if inspect.isfunction(method) and method.__code__.co_filename == compaction.__file__
}
_PUBLISHES: Final = next(
    f"Compactor.{name}" for name, text in _METHODS.items() if "txn.lock_reads()" in text
)
_COMPARES: Final = next(
    f"Compactor.{name}"
    for name, text in _METHODS.items()
    if "live_names(plan.state)" in text and "valid_txns()" in text
)
_FINDERS: Final = {"Compactor.PUBLISHES": _PUBLISHES, "Compactor.COMPARES": _COMPARES}


def _faults() -> Iterator[Fault]:
    """Return the faults of faults.toml, which says how to read it."""
    for one in tomllib.loads(Path(__file__).with_name("faults.toml").read_text())["fault"]:
        if NULL_PASSES or not one.get("needs_null_passes"):
            yield Fault(
                name=one["name"],
                scene=one["scene"],
                edits=tuple(_edit(**edit) for edit in one["edits"]),
                plans=tuple(
                    one["plan"].format(at=at, then=at + later)
                    for at in range(*one.get("at", (1,)))
                    for later in range(*one.get("later", (1,)))
                )
                if "plan" in one
                else (),
            )


def _edit(where: str, old: str, new: str) -> Edit:
    module, _, function = where.partition(":")
    return Edit(
        module=importlib.import_module(f"airflow_hiveacid.{module}"),
        where=_FINDERS.get(function, function),
        old=old,
        new=new,
    )


FAULTS: Final = tuple(_faults())


def test_the_edits_of_each_fault_fit_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test` leaves out some faults, but a change of the code must not."""
    for fault in FAULTS:
        with monkeypatch.context() as patch:
            put(fault, patch)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name.replace(" ", "-"))
@pytest.mark.long_cases(  # chance finds them late
    "a-snapshot-is-taken-before-the-claim",
    "a-local-directory-goes-file-by-file",
    "a-cleaner-does-not-look-for-tags",
)
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
