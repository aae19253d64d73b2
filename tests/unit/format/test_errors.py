from __future__ import annotations

import inspect
import pickle
import re

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.errors import HiveAcidError, RetryableError, Winner
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TableRef

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, HiveAcidError) and not cls.__name__.startswith("_")
]


def example(cls: type[HiveAcidError]) -> HiveAcidError:
    """An error of the class, built the way its own constructor wants it."""
    values = {"str": "x", "int": 1, "float": 1.0, "object": "x", "tuple[str, ...]": ("x", "y")}
    values["Mapping[str, str]"] = {"x": "y"}
    values["Collection[HiveAcidError]"] = ()
    values["str | None"] = "x"
    values["bool"] = False
    values["ClusterKind"] = errors.ClusterKind.YARN
    values["Winner | None"] = Winner(txn_id=9, job_key="dag/run/task/-1")
    parameters = inspect.signature(cls.__init__).parameters.values()
    data = {p.name: values[str(p.annotation)] for p in parameters if p.kind is p.KEYWORD_ONLY}
    return cls(**data) if data else cls("x")


def test_the_docstring_lists_every_error_class() -> None:
    drawn = set(re.findall(r"\w+Error\b", errors.__doc__ or ""))
    assert drawn == {c.__name__ for c in CLASSES} - {"RetryableError"}


def test_the_docstring_marks_the_errors_with_a_temporary_cause() -> None:
    marked = re.findall(r"(\w+Error) +retryable", errors.__doc__ or "")
    bases = tuple(map(errors.error_class, marked))
    expected = {RetryableError, *(c for c in CLASSES if issubclass(c, bases))}
    assert {c for c in CLASSES if issubclass(c, RetryableError)} == expected


def test_a_retry_may_also_help_if_the_cause_or_the_outcome_is_unknown() -> None:
    retryable = {c for c in CLASSES if c.retryable}
    assert {c for c in retryable if not issubclass(c, RetryableError)} == {
        errors.CommitStateUnknownError,
        errors.DirectoryExistsError,
        errors.JobFailedError,
        errors.MetastoreCallError,
        errors.StorageError,
        errors.TaskKilledError,
    }
    assert {c for c in CLASSES if issubclass(c, RetryableError)} <= retryable


def test_a_name_in_a_message_cannot_control_a_terminal_or_a_log() -> None:
    error = errors.CorruptFileError(path="t/\x1b[2J\u202e\x85x", reason="it is\n\tshort")
    assert str(error) == "t/\\x1b[2J\\u202e\\x85x is damaged: it is\n\tshort. Nothing was written"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - made here


@pytest.mark.parametrize(
    "error",
    [
        errors.SourceKeyError(
            table="d.t", keys=("id",), problem="the key id=a\nforged occurs twice"
        ),
        errors.MergeCardinalityError(table="d.t", count=1, example="id=a\nforged"),
        errors.FencedError(job_key="stream/a\nforged", txn_id=1, newer_txn_id=2),
        errors.EarlierRunUnknownError(
            table="d.t", job_key="a\nforged", txn_id=1, when="now", why="so"
        ),
    ],
)
def test_a_value_or_a_key_in_a_message_forges_no_line(error: HiveAcidError) -> None:
    assert r"a\nforged" in str(error)
    assert "\n" not in str(error)


def test_the_job_key_of_a_winner_forges_no_line() -> None:
    assert str(Winner(txn_id=9, job_key="a\nforged")) == r"transaction 9 of a\nforged"


@pytest.mark.parametrize("name", ["ValueError", "", "NoSuchError"])
def test_an_unknown_error_name_becomes_a_job_failed_error(name: str) -> None:
    assert errors.error_class(name) is errors.JobFailedError


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_a_pickled_error_keeps_its_type_message_and_attributes(cls: type[HiveAcidError]) -> None:
    error = example(cls)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(again), str(again), vars(again)) == (cls, str(error), vars(error))


def test_a_table_not_found_error_names_the_table() -> None:
    error = errors.TableNotFoundError(table=TableRef("demo", "flights"))
    assert error.table == "demo.flights"
    assert "demo.flights" in str(error)


def test_a_contract_version_error_names_the_older_side_and_the_remedy() -> None:
    text = str(errors.ContractVersionError(found=0, supported=1, side="operator"))
    assert "the operator is older" in text
    assert "Install the same release" in text


def test_a_missing_table_is_an_input_error_and_a_corrupt_file_is_not() -> None:
    assert issubclass(errors.TableNotFoundError, errors.InputError)
    assert not issubclass(errors.CorruptFileError, errors.InputError)


def test_a_message_shortens_a_very_long_value() -> None:
    with pytest.raises(errors.InvalidNameError) as found:
        ValidWriteIdList.parse("db.t:9:9:" + "7," * 500_000 + "x:")
    assert len(str(found.value)) < 1_000
    assert "db.t:9:9:7,7," in str(found.value)
    assert len(found.value.name) > 1_000_000


def test_an_error_with_many_failed_partitions_counts_all_and_names_some() -> None:
    failed = {f"day={day}": "the metastore does not answer" for day in range(10_000)}
    error = errors.PartitionsFailedError(
        table="db.t", failed=failed, of=10_001, done={"day=x": "major"}
    )
    assert "10000 of 10001 partitions failed" in str(error)
    assert "day=19: the metastore" in str(error)
    assert "and 9980 more, which the application's log lists" in str(error)
    assert str(error).endswith("Done:\n  day=x: major")
    assert len(str(error)) < 2_000
    assert error.failed == failed
