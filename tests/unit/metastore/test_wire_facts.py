"""Compares our IDL with the stubs that another project generated from Hive's own.

A wrong number or type on the wire does not fail: it silently means something else.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.Thrift import TType

import airflow_hiveacid.metastore
from airflow_hiveacid.metastore.gen.compaction import ttypes as compaction
from airflow_hiveacid.metastore.gen.constraints import ttypes as constraints
from airflow_hiveacid.metastore.gen.faults import ttypes as faults
from airflow_hiveacid.metastore.gen.locks import ttypes as locks
from airflow_hiveacid.metastore.gen.notifications import ttypes as notifications
from airflow_hiveacid.metastore.gen.places import ttypes as places
from airflow_hiveacid.metastore.gen.service import Metastore, Places
from airflow_hiveacid.metastore.gen.tables import ttypes as tables
from airflow_hiveacid.metastore.gen.transactions import ttypes as transactions

Stub: TypeAlias = Any  # generated code has no types

# Younger than the independent client's IDL, whose Hive knew no pools of workers, no filters of the
# queue and no history for readers. Each is set, and its effect seen, on a live 4.0.1 by a test in
# tests/contract/metastore or tests/spark, which is named.
YOUNGER_FIELDS: Final = {
    ("CompactionRequest", "poolName"): "test_a_worker_claims_from_its_own_pool_only",
    ("FindNextCompactRequest", "poolName"): "test_a_worker_claims_from_its_own_pool_only",
    ("CompactionInfoStruct", "poolname"): "test_a_worker_claims_from_its_own_pool_only",
    ("ShowCompactRequest", "dbName"): "test_the_metastore_filters_the_queue",
    ("ShowCompactRequest", "tbName"): "test_the_metastore_filters_the_queue",
    ("ShowCompactRequest", "partName"): "test_the_metastore_filters_the_queue",
    ("ShowCompactResponseElement", "poolName"): "test_a_worker_claims_from_its_own_pool_only",
    ("ShowCompactResponseElement", "txnId"): "test_a_compaction_passes_through_all_states",
    ("ShowCompactResponseElement", "nextTxnId"): "test_a_compaction_passes_through_all_states",
    ("ShowCompactResponseElement", "commitTime"): "test_a_compaction_passes_through_all_states",
    (
        "ShowCompactResponseElement",
        "hightestWriteId",
    ): "test_a_compaction_passes_through_all_states",
}
YOUNGER_METHODS: Final = {
    "add_write_ids_to_min_history": (
        "test_hives_cleaner_waits_for_our_readers_and_cleans_after_our_compactions"
    ),
}
YOUNGER_MEMBERS: Final = {
    # Numbers seen in the class files of 4.0.1; we parse them and never send them.
    ("TxnType", "REBALANCE_COMPACTION"): 6,
    ("TxnType", "SOFT_DELETE"): 5,
    ("CompactionType", "REBALANCE"): 3,
    ("CompactionType", "ABORT_TXN_CLEANUP"): 4,
}
# Values of ours that are sent when nobody sets the field, and differ from Hive's on purpose.
OTHER_DEFAULTS: Final = {
    # Hive's own default skips the detection of write conflicts.
    ("CommitTxnRequest", "exclWriteEnabled"): False,
}
# Structs of ours that read a part of another one's answer.
PARTS: Final = {"EventHead": "NotificationEvent", "EventHeads": "NotificationEventResponse"}
_IDL: Final = Path(airflow_hiveacid.metastore.__file__).parent / "idl"
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRUCT: Final = re.compile(r"(?:struct|exception) (\w+) \{(.*?)\}", re.DOTALL)
_FIELD: Final = re.compile(r"(\d+): .*?(\w+)(?: = \w+)?\n")
_METHOD: Final = re.compile(r"^  \S.*? (\w+)\(", re.MULTILINE)
_MODULES: Final = (
    compaction,
    constraints,
    faults,
    locks,
    notifications,
    places,
    tables,
    transactions,
)


def _is_struct(candidate: object) -> bool:
    return inspect.isclass(candidate) and hasattr(candidate, "thrift_spec")


def _is_enum(candidate: object) -> bool:
    return inspect.isclass(candidate) and hasattr(candidate, "_NAMES_TO_VALUES")


STRUCTS: Final = [c for m in _MODULES for c in vars(m).values() if _is_struct(c)]
ENUMS: Final = [c for m in _MODULES for c in vars(m).values() if _is_enum(c)]
METHODS: Final = [
    (service, name)
    for service in (Metastore, Places)
    for name in vars(service.Client)
    if not name.startswith(("_", "send_", "recv_"))
]


def fields(struct: Stub) -> dict[str, tuple[int, str]]:
    return {f[2]: (f[0], _type(f[1], f[3])) for f in struct.thrift_spec or () if f}


def _whole(kind: str) -> str:
    """Spells a type as if it were read whole."""
    return re.sub(r"\w+", lambda found: PARTS.get(found[0], found[0]), kind)


def _type(kind: int, arguments: Stub) -> str:
    """Spells a type: names of structs, element types of containers."""
    match kind:
        case TType.STRUCT:
            return str(arguments[0].__name__)
        case TType.LIST | TType.SET:
            return f"{TType._VALUES_TO_NAMES[kind]}<{_type(arguments[0], arguments[1])}>"
        case TType.MAP:
            key, value = _type(arguments[0], arguments[1]), _type(arguments[2], arguments[3])
            return f"MAP<{key},{value}>"
        case TType.STRING:
            return "BINARY" if arguments == "BINARY" else "STRING"
        case _:
            return str(TType._VALUES_TO_NAMES[kind])


def test_the_idl_is_not_empty() -> None:
    assert len(STRUCTS) > 50
    assert len(METHODS) > 30


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda s: s.__name__)
def test_every_field_has_the_number_and_type_that_an_independent_client_has(struct: Stub) -> None:
    theirs = fields(getattr(ttypes, PARTS.get(struct.__name__, struct.__name__)))
    for name, (number, kind) in fields(struct).items():
        if (struct.__name__, name) in YOUNGER_FIELDS:
            assert name not in theirs
            assert number not in {other for other, _ in theirs.values()}
        else:
            assert (number, _whole(kind)) == theirs[name], name


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda s: s.__name__)
def test_only_the_listed_fields_have_a_default_value(struct: Stub) -> None:
    preset = {f[2]: f[4] for f in struct.thrift_spec or () if f and f[4] is not None}
    expected = {name: v for (owner, name), v in OTHER_DEFAULTS.items() if owner == struct.__name__}
    assert preset == expected


@pytest.mark.parametrize("enum", ENUMS, ids=lambda e: e.__name__)
def test_every_enum_member_has_the_number_that_an_independent_client_has(enum: Stub) -> None:
    theirs = getattr(ttypes, enum.__name__)._NAMES_TO_VALUES
    for name, number in enum._NAMES_TO_VALUES.items():
        expected = YOUNGER_MEMBERS.get((enum.__name__, name), theirs.get(name))
        assert number == expected, name


@pytest.mark.parametrize(("service", "method"), METHODS)
def test_every_method_has_the_arguments_and_faults_that_an_independent_client_has(
    service: Stub, method: str
) -> None:
    if method in YOUNGER_METHODS:
        assert not hasattr(ThriftHiveMetastore, f"{method}_args")
        return
    ours = {
        kind: {n: _whole(type_) for n, type_ in _spec(service, method, kind).items()}
        for kind in ("args", "result")
    }
    theirs = {kind: _spec(ThriftHiveMetastore, method, kind) for kind in ("args", "result")}
    assert ours == theirs


def _spec(module: Stub, method: str, kind: str) -> dict[int, str]:
    struct = getattr(module, f"{method}_{kind}")
    return {f[0]: _type(f[1], f[3]) for f in struct.thrift_spec or () if f}


def test_each_newer_field_or_method_refers_to_a_test_that_exists() -> None:
    tests = Path(__file__).parents[2]
    files = [*tests.glob("contract/metastore/test_*.py"), *tests.glob("spark/test_*.py")]
    text = "".join(file.read_text() for file in files)
    named = {*YOUNGER_FIELDS.values(), *YOUNGER_METHODS.values()}
    assert {name for name in named if f"def {name}(" not in text} == set()


def test_the_generated_stubs_match_the_idl() -> None:
    written = {
        (file.stem, struct): {name: int(number) for number, name in _FIELD.findall(body)}
        for file in _IDL.glob("*.thrift")
        for struct, body in _STRUCT.findall(_COMMENT.sub("", file.read_text()))
    }
    generated = {
        (struct.__module__.split(".")[-2], struct.__name__): {
            name: number for name, (number, _) in fields(struct).items()
        }
        for struct in STRUCTS
    }
    assert written == generated
    service = _COMMENT.sub("", (_IDL / "service.thrift").read_text())
    assert sorted(_METHOD.findall(service)) == sorted(name for _, name in METHODS)
