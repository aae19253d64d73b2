from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import Horizon, Keeping, OwnCompaction, Promises
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.format.versions import Guarantee
from airflow_hiveacid.maintenance.overview import with_past
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.metastore.entry_status import unfinished
from airflow_hiveacid.plan.keeping import (
    NO_AUTO_COMPACTION,
    NO_CLEANUP,
    READABLE_FOR,
    duration,
    readable_for,
)
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import (
    keep_readable,
    note_as_ours,
    opted_out_of,
)
from airflow_hiveacid.versions.past import promises_of
from tests.unit.versions.conftest import Bench, beside

D1, D2 = "delta_0000001_0000001_0000", "delta_0000002_0000002_0000"


# ---- promises ------------------------------------------------------------------------------------


def test_keeping_a_table_sets_the_properties_that_disable_hives_maintenance(bench: Bench) -> None:
    bench.we_write()
    kept = bench.keep()
    assert bench.table.parameters["no_auto_compaction"] == "True"
    is_new = bench.client.generation.name == "V4"
    assert (bench.table.parameters.get("no_cleanup") == "True") is is_new
    assert bench.keep() == kept  # once
    bench.keep_no_more()
    assert not {"no_cleanup", "no_auto_compaction"} & set(bench.table.parameters)
    assert bench.notes.promises() == Promises()


def test_keeping_a_table_is_refused_while_a_compaction_is_queued(bench: Bench) -> None:
    bench.we_write()
    bench.request()
    with pytest.raises(errors.KeepingRefusedError, match="waits for a worker") as caught:
        bench.keep()
    assert caught.value.retryable
    (status,) = unfinished(bench.client, bench.ref)
    assert str(status) in str(caught.value)
    assert not bench.notes.is_kept()


@pytest.mark.parametrize("state", [CompactionState.INITIATED, CompactionState.SUCCEEDED])
def test_keeping_a_table_is_refused_if_a_compaction_is_queued_during_the_listing(
    bench: Bench, state: CompactionState
) -> None:
    bench.we_write()
    compaction = beside(bench.client, "list_partitions", lambda: bench.somebody_compacts(state))
    with compaction, pytest.raises(errors.KeepingRefusedError):
        bench.keep()
    assert bench.notes.promises() == Promises()


RESTING = CompactionState.received("resting")
ENDING = [CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED, CompactionState.FAILED]


@pytest.mark.parametrize("state", [None, RESTING, *CompactionState])
def test_a_foreign_compaction_ends_the_guarantee_once_hive_may_clean_after_it(
    bench: Bench, state: CompactionState | None
) -> None:
    bench.we_write()
    bench.keep()
    bench.we_write()
    bench.we_write(overwrites=True)
    assert bench.names(version=2) == [D1, D2]
    if state is None:
        bench.client.set_table_parameters(bench.ref, {"no_auto_compaction": None})
    else:
        bench.somebody_compacts(state)
    if state in (None, RESTING, *ENDING):
        bench.refuses(2, match="oldest readable version is 3")
        if state is not CompactionState.READY_FOR_CLEANING:
            bench.clean()
            assert not bench.notes.is_kept()
    else:
        assert bench.names(version=2) == [D1, D2]
        bench.clean()
        assert bench.notes.is_kept()


def test_a_guarantee_holds_beside_the_compactions_that_ended_before_it(bench: Bench) -> None:
    bench.we_write()
    for _ in range(3):
        bench.somebody_compacts()
    bench.keep()
    assert promises_of(bench.client, bench.table).keeping is not None


def test_our_own_compaction_does_not_end_the_guarantee(bench: Bench) -> None:
    bench.we_write()
    bench.keep()
    bench.we_write()
    bench.we_write(overwrites=True)
    entry = bench.somebody_compacts()
    bench.notes.note_own_compaction(OwnCompaction(entry_id=entry, aborted=(WriteId(1),)))
    # what was aborted when it began stays so, whatever the metastore has forgotten since
    assert bench.names(version=2) == [D2]


def test_a_guarantee_has_ended_even_after_the_foreign_compaction_left_the_queue(
    bench: Bench,
) -> None:
    bench.we_write()
    bench.keep()
    bench.we_write()
    bench.we_write(overwrites=True)
    theirs = bench.somebody_compacts()
    ours = bench.request()
    note_as_ours(bench.client, bench.table, OwnCompaction(entry_id=ours), bench.notes)
    del bench.client.server.queue[theirs]
    bench.refuses(2)


def test_an_old_listing_does_not_hide_that_a_later_guarantee_has_ended(bench: Bench) -> None:
    bench.keep()
    bench.notes.end_keeping(1)
    listed = bench.notes.listed_once()
    assert listed.has_ended()
    bench.notes.forget_keeping()
    bench.keep()
    bench.somebody_compacts()
    ours = bench.request()
    note_as_ours(bench.client, bench.table, OwnCompaction(entry_id=ours), listed)
    assert bench.notes.has_ended()


def test_a_queue_entry_without_an_id_ends_the_guarantee(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.we_write()
    bench.keep()
    bench.we_write()
    bench.we_write(overwrites=True)
    assert bench.names(version=2)
    bench.somebody_compacts()
    (entry,) = bench.client.show_compactions(bench.ref)
    unnumbered = (replace(entry, entry_id=None),)
    monkeypatch.setattr(type(bench.client), "show_compactions", lambda *_: unnumbered)
    bench.refuses(2)


def test_a_guarantee_combines_its_keeping_note_with_horizons_and_own_compactions() -> None:
    p, q = PartitionName.parse("p=1"), PartitionName.parse("p=2")
    keeping = Keeping(roots={p: Guarantee(floor=WriteId(5))}, last_entry_id=7, since_s=0.0)
    horizon = Horizon(partition=p, write_id=WriteId(9), high_watermark=0, at_s=0.0)  # type: ignore[arg-type]
    promises = Promises(keeping=keeping, horizons=(horizon,), own=(OwnCompaction(entry_id=8),))
    assert promises.of(p) == Guarantee(floor=WriteId(9))
    assert promises.of(q) == Guarantee(floor=WriteId(0))  # made later
    assert not promises.is_broken([3, 7, 8])
    assert promises.is_broken([9])
    assert Promises().of(p) is None


def test_a_damaged_horizon_raises_an_error(bench: Bench) -> None:
    bench.we_write()
    bench.keep()
    bench.notes.note_horizon(
        Horizon(partition=PartitionName(), write_id=WriteId(1), high_watermark=0, at_s=0.0)  # type: ignore[arg-type]
    )
    (file,) = (bench.root / HIDDEN_DIRECTORY).glob("_horizon_*")
    file.write_text("{")
    bench.we_write(overwrites=True)
    with pytest.raises(errors.CorruptFileError, match="not a note"):
        bench.names(version=1)


# ---- the parameters of a guarantee that never began, or has ended --------------------------------

OURS = {"no_auto_compaction", "no_cleanup", "hiveacid.kept"}


class Killed(BaseException):
    pass


def killed(*_: object) -> None:
    raise Killed


def has_opted_out(bench: Bench) -> bool:
    return any(opted_out_of(bench.table, name) for name in (NO_AUTO_COMPACTION, NO_CLEANUP))


def test_a_refused_guarantee_removes_its_parameters(bench: Bench) -> None:
    bench.we_write()
    bench.request()
    with pytest.raises(errors.KeepingRefusedError):
        bench.keep()
    assert not OURS & set(bench.table.parameters)
    with pytest.raises(errors.KeepingRefusedError):
        keep_readable(bench.client, bench.ref, "7 days")
    # nothing but these stops the next compaction, which would again refuse the guarantee
    assert bench.table.parameters["no_auto_compaction"] == "True"


def test_a_tag_needs_the_parameters_until_its_guarantee_begins_again(bench: Bench) -> None:
    bench.we_write()
    bench.tag()
    bench.somebody_compacts()
    bench.request()
    bench.clean()
    assert not bench.notes.is_kept()
    assert bench.table.parameters["no_auto_compaction"] == "True"


def test_the_parameters_of_a_process_that_died_before_its_guarantee_are_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.we_write()
    with monkeypatch.context() as patch:
        patch.setattr(VersionNotes, "note_keeping", killed)
        with pytest.raises(Killed):
            bench.keep()
    assert bench.table.parameters["no_auto_compaction"] == "True"
    assert not has_opted_out(bench)
    bench.clean()
    assert not OURS & set(bench.table.parameters)


def test_the_parameters_of_a_process_that_died_after_its_guarantee_are_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.we_write()
    keep_readable(bench.client, bench.ref, "7 days")
    change = bench.client.set_table_parameters

    def changed(ref: TableRef, parameters: dict[str, str | None]) -> None:
        if READABLE_FOR not in parameters:
            raise Killed
        change(ref, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(bench.client, "set_table_parameters", changed)
        with pytest.raises(Killed):
            bench.keep_no_more()
    assert not bench.notes.is_kept()
    assert not has_opted_out(bench)
    bench.clean()
    assert not OURS & set(bench.table.parameters)


def test_the_parameters_of_a_guarantee_that_a_compaction_has_ended_are_removed(
    bench: Bench,
) -> None:
    bench.we_write()
    bench.tag()
    bench.notes.forget_tag("a")
    bench.clean()
    assert bench.notes.is_kept()  # as long as nobody else compacts
    bench.somebody_compacts()
    bench.clean()
    assert not OURS & set(bench.table.parameters)


def test_a_guarantee_without_its_parameters_is_refused(bench: Bench) -> None:
    """A cleaning found them while a job was still listing the table's files."""
    bench.we_write()

    def clean() -> None:
        with_past(bench.client, bench.table, plan_only=False)

    refused = pytest.raises(errors.KeepingRefusedError, match="removed the parameters")
    with beside(bench.client, "list_partitions", clean), refused:
        bench.keep()
    assert bench.notes.promises() == Promises()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_guarantee_that_begins_while_a_cleaning_removes_parameters_holds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """A killed process has left them, and the cleaning has found no guarantee that needs them."""
    bench.we_write()
    with monkeypatch.context() as patch:
        patch.setattr(VersionNotes, "note_keeping", killed)
        with pytest.raises(Killed):
            bench.keep()
    change = bench.client.set_table_parameters

    def changed(ref: TableRef, parameters: dict[str, str | None]) -> None:
        patch.undo()
        if moment == "before":
            bench.tag()
            change(ref, parameters)
            return
        note = VersionNotes.note_keeping

        def noted(notes: VersionNotes, keeping: Keeping) -> None:
            change(ref, parameters)
            note(notes, keeping)

        with monkeypatch.context() as late:
            late.setattr(VersionNotes, "note_keeping", noted)
            with pytest.raises(errors.KeepingRefusedError, match="removed the parameters"):
                bench.tag()

    with monkeypatch.context() as patch:
        patch.setattr(bench.client, "set_table_parameters", changed)
        bench.clean()
    is_kept = moment == "before"
    assert bench.notes.is_kept() is is_kept
    assert (promises_of(bench.client, bench.table).keeping is not None) is is_kept
    assert bool(OURS & set(bench.table.parameters)) is is_kept


def is_refused(bench: Bench) -> None:
    bench.request()
    with pytest.raises(errors.KeepingRefusedError):
        bench.tag()


def is_broken(bench: Bench) -> None:
    bench.keep()
    bench.somebody_compacts()
    bench.clean()


def is_ended(bench: Bench) -> None:
    bench.keep()
    bench.keep_no_more()


@pytest.mark.parametrize("ends", [is_refused, is_broken, is_ended])
@pytest.mark.parametrize(
    "set_by_owner",
    [
        {"NO_AUTO_COMPACTION": "true", "no_cleanup": "true"},
        {"no_auto_compaction": "true", "no_cleanup": "true", "hiveacid.kept": "false"},
        {"no_auto_compaction": "true"},
        {"no_cleanup": "True"},
    ],
)
def test_parameters_of_the_owner_stay(
    make_bench: Callable[..., Bench],
    set_by_owner: dict[str, str],
    ends: Callable[[Bench], None],
) -> None:
    """Also if a guarantee relied on them."""
    bench = make_bench(parameters=set_by_owner)
    bench.we_write()
    ends(bench)
    bench.clean()
    assert not bench.notes.is_kept()
    left = {name: value for name, value in set_by_owner.items() if name != "hiveacid.kept"}
    assert {k: v for k, v in bench.table.parameters.items() if k.lower() in OURS} == left
    assert has_opted_out(bench)


@pytest.mark.parametrize("is_unset_first", [False, True])
def test_a_parameter_that_the_owner_sets_on_a_kept_table_stays(
    bench: Bench, *, is_unset_first: bool
) -> None:
    bench.we_write()
    bench.keep()
    if is_unset_first:
        unset = dict.fromkeys((NO_AUTO_COMPACTION, NO_CLEANUP))
        bench.client.set_table_parameters(bench.ref, unset)
    bench.client.set_table_parameters(bench.ref, {NO_AUTO_COMPACTION: "true"})
    assert opted_out_of(bench.table, NO_AUTO_COMPACTION)
    assert not opted_out_of(bench.table, NO_CLEANUP)
    bench.somebody_compacts()
    bench.clean()
    assert not bench.notes.is_kept()
    assert OURS & set(bench.table.parameters) == {NO_AUTO_COMPACTION}


# ---- retention -----------------------------------------------------------------------------------


@pytest.mark.promise("V7")
def test_a_replaced_version_is_readable_for_the_configured_time_by_the_metastores_clock(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(parameters={READABLE_FOR: "100 seconds"})
    bench.clean()
    bench.we_write()
    bench.we_write(overwrites=True)
    bench.clean()  # sees the replacement, and when
    bench.clock.advance(99.9)
    bench.clean()
    assert bench.names(version=1) == [D1]
    bench.clock.advance(0.2)
    bench.clean()
    bench.refuses(1, match="oldest readable version is 2")
    assert not (bench.root / D1).exists()


def test_files_replaced_by_an_early_base_expire_before_those_of_a_later_base(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(parameters={READABLE_FOR: "100 seconds"})
    bench.clean()
    bench.we_write()
    for _ in range(4):
        bench.we_write(overwrites=True)
        bench.clean()
        bench.clock.advance(60)
    bench.clean()
    found = sorted(p.name for p in bench.root.iterdir() if p.name.startswith(("base", "delta")))
    assert found == ["base_0000004", "base_0000005"]
    assert bench.names(version=4) == ["base_0000004"]


def test_cleaning_waits_for_open_readers_of_an_expired_version(expiring: Bench) -> None:
    expiring.we_write()
    expiring.we_write(overwrites=True)
    expiring.clean()  # nobody is there
    expiring.we_write()
    expiring.we_write(overwrites=True)
    reader = expiring.client.open_txn()
    assert expiring.names(version=3) == ["base_0000002", "delta_0000003_0000003_0000"]
    expiring.clean()
    assert (expiring.root / "base_0000002").exists()
    expiring.client.commit_txn(reader)
    expiring.clean()
    assert not (expiring.root / "base_0000002").exists()


def test_cleaning_waits_for_readers_that_began_before_the_horizon_was_noted(
    make_bench: Callable[..., Bench],
) -> None:
    """Also where the replacement was seen long before he began."""
    bench = make_bench(parameters={READABLE_FOR: "100 seconds"})
    bench.clean()
    bench.we_write()
    bench.we_write(overwrites=True)
    bench.clean()
    bench.clock.advance(200)
    reader = bench.client.open_txn()
    assert bench.names(version=1) == [D1]
    for _ in range(2):
        bench.clean()
        assert (bench.root / D1).exists()
    with pytest.raises(errors.VersionGoneError, match="oldest readable version is 2"):
        bench.names(version=1)  # for whoever comes now
    bench.client.commit_txn(reader)
    bench.clean()
    assert not (bench.root / D1).exists()


@pytest.mark.parametrize(
    "text", ["", "7", "days", "-1 days", "1 month", "7 days or so", "\u0667 days"]
)
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="is not a duration"):
        readable_for({READABLE_FOR: text})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 minutes", 5400),
        ("1.5 HOURS", 5400),
        ("1day", 86400),
        ("2 weeks", 1209600),
        ("10 years", 316224000),
    ],
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert duration(text, "x") == seconds


def test_files_first_seen_by_a_clock_that_was_ahead_expire_nevertheless(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(parameters={READABLE_FOR: "1 day"})
    bench.clean()
    bench.we_write()
    bench.we_write(overwrites=True)
    bench.clock.advance(1e8)
    bench.clean()
    bench.clock.advance(-1e8)
    bench.clean()
    bench.clock.advance(86_000)
    bench.clean()
    assert bench.names(version=1) == ["delta_0000001_0000001_0000"]
    bench.clock.advance(500)
    bench.clean()
    bench.refuses(1)
