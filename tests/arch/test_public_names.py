"""What users import is exactly what public_names.txt says, and each name of it is documented.

A line of public_names.txt is a name with its parameters: those with a default end in `=`, and `*`
stands before those that are given by name. A change of a line is a change for users. The line of a
class whose values users only get, such as a transaction, is the bare name.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import Any, Final

import pytest

from airflow_hiveacid.format import errors
from tests.arch.faces import ANYWHERE, FACES, OF_AIRFLOW, PACKAGE, ROOT, homes_of, names_of
from tools.face_stubs import stub_file, stub_text

_FILE: Final = ROOT / "tests" / "arch" / "public_names.txt"
# Users get them, and never make one.
_GIVEN: Final = {
    *("acid.ReadSnapshot", "acid.Task", "acid.Transaction", "acid.JobResult"),
    *("acid.Lake", "acid.LakeTransaction", "acid.Scan", "acid.Table", "acid.TableChanges"),
    "acid.StreamWriter",
}
# Users call their methods. Those of operators and sensors are Airflow's to call, those of plain
# values ours; but values may be made by class methods.
_CALLED: Final = {*_GIVEN, "hooks.HiveAcidHook"}

# Full, or as in `plan.parameters`.
_ROOMS: Final = "|".join(folder.parent.name for folder in ROOT.glob(f"{PACKAGE}/*/__init__.py"))
_PATH: Final = re.compile(rf"\b{PACKAGE}(?:\.[a-z_]\w*)+|`(?:{_ROOMS})\.[\w.]+`")

every_face = pytest.mark.parametrize(
    "face", [*ANYWHERE, *(pytest.param(face, marks=pytest.mark.airflow) for face in OF_AIRFLOW)]
)


def public(face: str) -> Iterator[tuple[str, Any]]:
    """Each public name of a face, and of what is public of a class, with its value."""
    module = import_module(f"{PACKAGE}.{face}")
    for name in names_of(module.__name__):
        value = getattr(module, name)
        yield f"{face}.{name}", value
        if isinstance(value, type):
            kinds = (enum.Enum, classmethod)
            if f"{face}.{name}" in _CALLED:
                kinds += (FunctionType, property, cached_property)
            for attribute, member in vars(value).items():
                if isinstance(member, kinds) and not attribute.startswith("_"):
                    yield f"{face}.{name}.{attribute}", member


def shown(name: str, value: Any) -> str:  # noqa: ANN401
    """A line of the file."""
    if name in _GIVEN or isinstance(value, (enum.Enum, enum.EnumMeta, property, cached_property)):
        return name
    if isinstance(value, type):
        # Exceptions without an __init__ of their own have nothing to say.
        classes = [c for c in value.__mro__ if c.__module__.startswith(f"{PACKAGE}.")]
        makers = [vars(c)["__init__"] for c in classes if "__init__" in vars(c)]
        return f"{name}({', '.join(parameters(makers))})" if makers else name
    function = value.__func__ if isinstance(value, classmethod) else value
    return f"{name}({', '.join(parameters([function]))})"


def parameters(functions: list[Any]) -> list[str]:
    """Those of the first function; `**kwargs` is followed by those of the next, which gets them."""
    found: dict[str, inspect.Parameter] = {}
    for function in functions:
        given = dict(inspect.signature(function).parameters)
        found = {name: p for name, p in found.items() if p.kind is not p.VAR_KEYWORD}
        found |= {name: p for name, p in given.items() if name not in {"self", "cls", *found}}
        if not any(p.kind is p.VAR_KEYWORD for p in given.values()):
            break
    texts, is_by_name = [], False
    for name, parameter in found.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            texts.append(f"*{name}")
            is_by_name = True
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_by_name:
            texts.append("*")
            is_by_name = True
        is_optional = parameter.default is not parameter.empty
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        texts.append(f"{stars}{name}{'=' if is_optional else ''}")
    return texts


@every_face
def test_the_public_names_are_exactly_those_listed_in_the_file(face: str) -> None:
    listed = [line for line in _FILE.read_text().splitlines() if line.startswith(f"{face}.")]
    assert sorted(shown(*entry) for entry in public(face)) == listed


def test_the_file_of_public_names_is_sorted_and_lists_only_public_modules() -> None:
    lines = _FILE.read_text().splitlines()
    assert lines == sorted(set(lines))
    assert {line.partition(".")[0] for line in lines} == {*ANYWHERE, *OF_AIRFLOW}


@pytest.mark.parametrize("face", FACES)
def test_the_stub_of_a_public_module_is_up_to_date(face: str) -> None:
    assert stub_file(face).read_text() == stub_text(face)


def test_every_public_module_is_listed() -> None:
    assert sorted(f"{PACKAGE}.{face}" for face in (*ANYWHERE, *OF_AIRFLOW)) == sorted(FACES)


# Import contracts do not see imports of names that are imported lazily.
@pytest.mark.parametrize(
    ("faces", "rooms"),
    [
        (["acid"], {"arrow", "jobs", "lake", "reading", "spark"}),
        (["errors"], {"format"}),
        (OF_AIRFLOW, {"format", "jobs", "metastore"}),
    ],
)
def test_a_public_module_exports_names_of_its_own_and_of_lower_packages(
    faces: list[str], rooms: set[str]
) -> None:
    for face in faces:
        homes = {home.split(".")[1] for home in homes_of(f"{PACKAGE}.{face}").values()}
        assert homes <= {*rooms, *({face} & {*OF_AIRFLOW})}


@every_face
def test_a_public_module_exports_the_names_that_type_checkers_find(face: str) -> None:
    module = import_module(f"{PACKAGE}.{face}")
    homes = homes_of(module.__name__)
    assert sorted(homes) == module.__all__
    assert {*homes} <= {*dir(module)}
    for name, home in homes.items():
        assert getattr(module, name) is getattr(import_module(home), name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


def own_docstring(value: Any) -> str:  # noqa: ANN401
    """Its docstring, blank if it has none of its own."""
    text = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    # A dataclass without one gets its signature.
    is_made_up = isinstance(value, type) and (text or "").startswith(f"{value.__name__}(")
    return "" if is_made_up else (text or "")


@every_face
def test_every_public_name_has_a_docstring(face: str) -> None:
    values = {name: value for name, value in public(face) if not isinstance(value, enum.Enum)}
    assert [name for name, value in values.items() if not own_docstring(value).strip()] == []


@every_face
def test_docstrings_of_public_names_mention_only_public_names(face: str) -> None:
    texts = {name: own_docstring(v) for name, v in public(face) if not isinstance(v, enum.Enum)}
    texts[face] = import_module(f"{PACKAGE}.{face}").__doc__ or ""
    for name, text in texts.items():
        assert {path for path in _PATH.findall(text) if path not in FACES} == set(), name
        named = {e for e in re.findall(r"\b[A-Z]\w*Error\b", text) if hasattr(errors, e)}
        assert named - {*names_of(f"{PACKAGE}.errors")} == set(), name


def test_every_error_derives_from_a_public_error() -> None:
    names = names_of(f"{PACKAGE}.errors")
    everything = [e for e in vars(errors).values() if isinstance(e, type)]
    for error in (e for e in everything if issubclass(e, errors.HiveAcidError)):
        assert any(base.__name__ in names for base in error.__mro__), error
