"""The two tables, and that locks and records are those that they ask for."""

from __future__ import annotations

import itertools

import pytest

from airflow_hiveacid.format import conflicts
from airflow_hiveacid.format.errors import ConfigurationError

HIVE, STRICT = conflicts.ConflictPolicy
V3, V4 = conflicts.MetastoreGeneration
_, INSERT, UPDATE, DELETE, OVERWRITE = conflicts.DataOperation
WRITES = {
    conflicts.WriteKind.OVERWRITE: {OVERWRITE},
    conflicts.WriteKind.INSERT: {INSERT},
    conflicts.WriteKind.CHANGE: {UPDATE, DELETE},
}


def table(policy: conflicts.ConflictPolicy, generation: conflicts.MetastoreGeneration) -> str:
    """The letters, line by line: the earlier one down, the later one across."""
    return " / ".join(
        "".join(
            conflicts.outcome(policy, generation, conflicts.Meeting(earlier=e, later=later)).value
            for later in conflicts.WriteKind
        )
        for e in conflicts.WriteKind
    )


@pytest.mark.parametrize("generation", conflicts.MetastoreGeneration)
def test_the_outcomes_of_the_strict_policy_match_its_table(
    generation: conflicts.MetastoreGeneration,
) -> None:
    assert table(STRICT, generation) == "WEEEE / WEECE / WEECE / WNNEC / WNNEE"


def test_the_outcomes_of_the_hive_policy_match_its_table_for_each_generation() -> None:
    assert table(HIVE, V4) == "WBBNN / WBBCC / WBECC / WNNNN / WNNNN"
    assert table(HIVE, V3) == "WBBNN / WBBCC / WBBCC / WNNNN / WNNNN"


@pytest.mark.parametrize("generation", conflicts.MetastoreGeneration)
@pytest.mark.parametrize(("earlier", "later"), list(itertools.product(WRITES, WRITES)))
def test_the_metastore_detects_the_write_conflicts_of_the_strict_policy(
    generation: conflicts.MetastoreGeneration,
    earlier: conflicts.WriteKind,
    later: conflicts.WriteKind,
) -> None:
    fails = (
        conflicts.outcome(STRICT, generation, conflicts.Meeting(earlier=earlier, later=later))
        is conflicts.ConflictOutcome.FAILS
    )
    for theirs, mine in itertools.product(WRITES[earlier], WRITES[later]):
        recorded = conflicts.recorded_under(STRICT, mine), conflicts.recorded_under(STRICT, theirs)
        # An overwrite is recorded, too; it waits, and begins anew, before anybody compares.
        assert conflicts.conflict(*recorded, generation) or not fails
        assert (
            conflicts.conflict(*recorded, generation) is fails
            or later is conflicts.WriteKind.OVERWRITE
        )


@pytest.mark.parametrize("generation", conflicts.MetastoreGeneration)
@pytest.mark.parametrize("policy", conflicts.ConflictPolicy)
def test_an_overwrite_waits_for_all_operations_and_all_operations_wait_for_it(
    policy: conflicts.ConflictPolicy, generation: conflicts.MetastoreGeneration
) -> None:
    exclusive = conflicts.lock_under(policy, generation, OVERWRITE)
    assert conflicts.recorded_under(policy, OVERWRITE) is conflicts.DataOperation.UPDATE
    for operation in conflicts.DataOperation:
        other = conflicts.lock_under(policy, generation, operation)
        assert not conflicts.may_share(exclusive, other, generation)
        assert not conflicts.may_share(other, exclusive, generation)


@pytest.mark.parametrize("generation", conflicts.MetastoreGeneration)
@pytest.mark.parametrize("one", [INSERT, UPDATE, DELETE])
@pytest.mark.parametrize("other", [INSERT, UPDATE, DELETE])
def test_under_the_strict_policy_inserts_updates_and_deletes_do_not_wait(
    generation: conflicts.MetastoreGeneration,
    one: conflicts.DataOperation,
    other: conflicts.DataOperation,
) -> None:
    wanted, held = (conflicts.lock_under(STRICT, generation, o) for o in (one, other))
    assert conflicts.may_share(wanted, held, generation)


@pytest.mark.parametrize("operation", [UPDATE, DELETE])
def test_on_hive_4_a_strict_change_blocks_hives_own_updates_and_deletes(
    operation: conflicts.DataOperation,
) -> None:
    assert not conflicts.may_share(
        conflicts.LockType.EXCL_WRITE, conflicts.lock_under(STRICT, V4, operation), V4
    )


def test_a_writer_counts_as_its_most_restrictive_operation() -> None:
    assert conflicts.write_kind_of({INSERT}) is conflicts.WriteKind.INSERT
    assert conflicts.write_kind_of({INSERT, DELETE}) is conflicts.WriteKind.CHANGE
    assert conflicts.write_kind_of({INSERT, UPDATE, OVERWRITE}) is conflicts.WriteKind.OVERWRITE


def test_only_the_strict_policy_looks_for_rivals_except_for_overwrites() -> None:
    assert not any(conflicts.looks_for_rivals(HIVE, doing) for doing in conflicts.WriteKind)
    assert {
        doing for doing in conflicts.WriteKind if not conflicts.looks_for_rivals(STRICT, doing)
    } == {conflicts.WriteKind.OVERWRITE}


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
    argument: conflicts.ConflictPolicy | None,
    prop: str | None,
    connection: conflicts.ConflictPolicy,
    expected: conflicts.ConflictPolicy,
) -> None:
    parameters = {} if prop is None else {conflicts.POLICY_PROPERTY: prop}
    assert conflicts.chosen_policy(argument, parameters, connection, table="db.t") is expected


def test_a_table_property_with_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"db\.t.*'lax'.*hive, strict"):
        conflicts.chosen_policy(None, {conflicts.POLICY_PROPERTY: "lax"}, HIVE, table="db.t")
