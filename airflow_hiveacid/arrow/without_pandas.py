"""Arrow without pandas, until another part of the process needs pandas.

Arrow imports pandas together with its first scalar, to recognise pandas' objects. This takes 0.4
CPU seconds, half of a small statement. So Arrow is made to look for pandas now and not to find it,
and looks again if another module imports pandas later.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

import pyarrow as pa

_NAME: Final = "pandas"


def let_pandas_wait() -> None:
    """Let Arrow look for pandas, and not find it, unless pandas is imported already."""
    if _NAME in sys.modules:
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    pa.scalar(True)
    finder.hidden_from = None


class _Finder(MetaPathFinder):
    """Hides pandas from one thread, and then watches for its import. Mutable: it stores which."""

    def __init__(self) -> None:
        self.hidden_from: int | None = threading.get_ident()

    def find_spec(
        self,
        fullname: str,
        path: object = None,  # noqa: ARG002 - of the base class
        target: ModuleType | None = None,  # noqa: ARG002 - of the base class
    ) -> ModuleSpec | None:
        if fullname != _NAME:
            return None
        if self.hidden_from == threading.get_ident():
            raise ModuleNotFoundError(name=_NAME)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(_NAME)
        if spec is not None and spec.loader is not None:
            _tell_arrow_after(spec)
        return spec


def _tell_arrow_after(spec: ModuleSpec) -> None:
    loader = spec.loader
    execute = loader.exec_module  # type: ignore[union-attr]

    def exec_module(module: ModuleType) -> None:
        execute(module)
        # Without this attribute, only the recognition of pandas' objects is missing.
        getattr(getattr(pa.lib, "_pandas_api", None), "pd", None)

    loader.exec_module = exec_module  # type: ignore[union-attr, method-assign]
