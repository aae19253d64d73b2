"""The two tables, and that locks and records are those that they ask for."""

from __future__ import annotations

import itertools

import pytest

from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockType,
    MetastoreGeneration,
    conflict,
    may_share,
)
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.policies import (
    POLICY_PROPERTY,
    ConflictOutcome,
    ConflictPolicy,
    Meeting,
    WriteKind,
    chosen_policy,
    lock_under,
    looks_for_rivals,
    outcome,
    recorded_under,
    write_kind_of,
)

HIVE, STRICT = ConflictPolicy
V3, V4 = MetastoreGeneration
_, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation
WRITES = {
    WriteKind.OVERWRITE: {OVERWRITE},
    WriteKind.INSERT: {INSERT},
    WriteKind.CHANGE: {UPDATE, DELETE},
}


def table(policy: ConflictPolicy, generation: MetastoreGeneration) -> str:
    """The letters, line by line: the earlier one down, the later one across."""
    return " / ".join(
        "".join(
            outcome(policy, generation, Meeting(earlier=e, later=later)).value
            for later in WriteKind
        )
        for e in WriteKind
    )


@pytest.mark.parametrize("generation", MetastoreGeneration)
def test_the_outcomes_of_the_strict_policy_match_its_table(generation: MetastoreGeneration) -> None:
    assert table(STRICT, generation) == "WEEEE / WEECE / WEECE / WNNEC / WNNEE"


def test_the_outcomes_of_the_hive_policy_match_its_table_for_each_generation() -> None:
    assert table(HIVE, V4) == "WBBNN / WBBCC / WBECC / WNNNN / WNNNN"
    assert table(HIVE, V3) == "WBBNN / WBBCC / WBBCC / WNNNN / WNNNN"


@pytest.mark.parametrize("generation", MetastoreGeneration)
@pytest.mark.parametrize(("earlier", "later"), list(itertools.product(WRITES, WRITES)))
def test_the_metastore_detects_the_write_conflicts_of_the_strict_policy(
    generation: MetastoreGeneration, earlier: WriteKind, later: WriteKind
) -> None:
    fails = (
        outcome(STRICT, generation, Meeting(earlier=earlier, later=later)) is ConflictOutcome.FAILS
    )
    for theirs, mine in itertools.product(WRITES[earlier], WRITES[later]):
        recorded = recorded_under(STRICT, mine), recorded_under(STRICT, theirs)
        # An overwrite is recorded, too; it waits, and begins anew, before anybody compares.
        assert conflict(*recorded, generation) or not fails
        assert conflict(*recorded, generation) is fails or later is WriteKind.OVERWRITE


@pytest.mark.parametrize("generation", MetastoreGeneration)
@pytest.mark.parametrize("policy", ConflictPolicy)
def test_an_overwrite_waits_for_all_operations_and_all_operations_wait_for_it(
    policy: ConflictPolicy, generation: MetastoreGeneration
) -> None:
    exclusive = lock_under(policy, generation, OVERWRITE)
    for operation in DataOperation:
        other = lock_under(policy, generation, operation)
        assert not may_share(exclusive, other, generation)
        assert not may_share(other, exclusive, generation)


@pytest.mark.parametrize("generation", MetastoreGeneration)
@pytest.mark.parametrize("one", [INSERT, UPDATE, DELETE])
@pytest.mark.parametrize("other", [INSERT, UPDATE, DELETE])
def test_under_the_strict_policy_inserts_updates_and_deletes_do_not_wait(
    generation: MetastoreGeneration, one: DataOperation, other: DataOperation
) -> None:
    wanted, held = (lock_under(STRICT, generation, o) for o in (one, other))
    assert may_share(wanted, held, generation)


@pytest.mark.parametrize("operation", [UPDATE, DELETE])
def test_on_hive_4_a_strict_change_blocks_hives_own_updates_and_deletes(
    operation: DataOperation,
) -> None:
    assert not may_share(LockType.EXCL_WRITE, lock_under(STRICT, V4, operation), V4)


def test_a_writer_counts_as_its_most_restrictive_operation() -> None:
    assert write_kind_of({INSERT}) is WriteKind.INSERT
    assert write_kind_of({INSERT, DELETE}) is WriteKind.CHANGE
    assert write_kind_of({INSERT, UPDATE, OVERWRITE}) is WriteKind.OVERWRITE


def test_only_the_strict_policy_looks_for_rivals_except_for_overwrites() -> None:
    assert not any(looks_for_rivals(HIVE, doing) for doing in WriteKind)
    assert {doing for doing in WriteKind if not looks_for_rivals(STRICT, doing)} == {
        WriteKind.OVERWRITE
    }


@pytest.mark.parametrize(
    ("argument", "prop", "connection", "expected"),
    [
        (None, None, HIVE, HIVE),
        (None, None, STRICT, STRICT),
        (None, " Strict ", HIVE, STRICT),
        (None, "hive", STRICT, HIVE),
        (STRICT, "hive", HIVE, STRICT),
        (HIVE, "strict", STRICT, HIVE),
    ],
)
def test_the_argument_overrides_the_table_property_which_overrides_the_connection(
    argument: ConflictPolicy | None,
    prop: str | None,
    connection: ConflictPolicy,
    expected: ConflictPolicy,
) -> None:
    parameters = {} if prop is None else {POLICY_PROPERTY: prop}
    assert chosen_policy(argument, parameters, connection, table="db.t") is expected


def test_a_table_property_with_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"db\.t.*'lax'.*hive, strict"):
        chosen_policy(None, {POLICY_PROPERTY: "lax"}, HIVE, table="db.t")
