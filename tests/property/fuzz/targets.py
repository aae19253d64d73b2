"""What is damaged, who has to read it, and what may come of it.

Each target makes one damaged thing from dice and has it read. It ends in an error of our tree, or
in an answer that its checks take for plausible: anything else is a finding. The things that are
damaged are those that Hive wrote (the golden directories), or that we write.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.ids import LONG_MAX, AttemptId, BucketId, TxnId, WriteId, encode
from airflow_hiveacid.format.names import (
    is_below_hidden,
    parse_directory_name,
    parse_file_name,
    stays_below,
)
from airflow_hiveacid.format.records import (
    CommitNote,
    CompactionFailures,
    FirstSeen,
    Horizon,
    Keeping,
    LedgerEntry,
    OwnCompaction,
    Reset,
    Tag,
)
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column, PartitionName, unescape_partition_value
from airflow_hiveacid.jobs.job import JobResult, JobSpec
from airflow_hiveacid.plan.conversion import why_not_noted
from airflow_hiveacid.sql.script import read_script
from airflow_hiveacid.sql.text import statements_of
from airflow_hiveacid.sql.text.literals import text as literal_text
from airflow_hiveacid.sql.text.tokens import Kind
from airflow_hiveacid.storage.acid import read
from airflow_hiveacid.storage.acid.read.files import committed_length
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.orc.compression import Compression, compress, decompress
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.tail import parse_tail
from airflow_hiveacid.storage.orc.view import fitting_rows
from airflow_hiveacid.storage.stores.change_feed import feed_note
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.stores.job_ledger import parse_entry
from airflow_hiveacid.storage.stores.json_files import read_notes
from airflow_hiveacid.storage.stores.locations import LOCAL_STORE
from airflow_hiveacid.storage.stores.table_notes import TableNotes, parsed_owner
from airflow_hiveacid.storage.values.convert import plan_fields
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.judges.golden import GoldenCase, cases
from tests.property.fuzz.mutations import Dice
from tests.unit.jobs.test_results import FAILED, RESULT
from tests.unit.jobs.test_specs import JOBS, spec

FS: Final = LocalFileSystem()
_LARGEST_FILE: Final = 20_000
_FIRST_OF_ROW: Final = 6

SEEDS: Final = json.loads(Path(__file__).with_name("seeds.json").read_text())
"""Names, lists of IDs, statements and notes as Hive and we write them."""
DIRECTORIES: Final[list[str]] = SEEDS["directories"]
FILES: Final[list[str]] = SEEDS["files"]
TXN_LISTS: Final[list[str]] = SEEDS["transaction lists"]
WRITE_ID_LISTS: Final[list[str]] = SEEDS["write ID lists"]
SQL: Final[list[str]] = SEEDS["SQL"]
NOTES: Final[dict[str, dict[str, object]]] = SEEDS["notes"]


class SilentError(AssertionError):
    """An answer that is wrong without saying so."""


def require(fact: object, what: str) -> None:
    """See that an answer is plausible."""
    if not fact:
        raise SilentError(what)


# ---- texts ---------------------------------------------------------------------------------------


def names(dice: Dice, _folder: Path) -> None:
    """A listing with damaged names: every file of it has a place in the answer."""
    listed = [f"{dice.choice(DIRECTORIES)}/{dice.choice(FILES)}" for _ in range(4)]
    listed.append(dice.choice(FILES))
    at = dice.randrange(len(listed))
    listed[at] = dice.text(listed[at], [*DIRECTORIES, *FILES])
    paths = sorted({path.strip("/") for path in listed} - {""})
    for part in {part for path in paths for part in path.split("/")}:
        for parse in (parse_directory_name, parse_file_name):
            found = parse(part)
            require(found is None or parse(str(found)) == found, f"{part!r} was read as {found}")
    listing = Listing(
        location="/t", files=tuple(FileEntry(path=path, size_bytes=9) for path in paths)
    )
    state = resolve(listing, ValidWriteIdList.parse(dice.choice(WRITE_ID_LISTS)), None)
    placed = {u.path for u in state.unknown}
    placed |= {f.path for f in (*state.originals, *state.obsolete_originals)}
    for directory in state.directories:
        placed |= {f.path for f in (*directory.files, *directory.side_files)}
    for path in paths:
        require(path in placed or is_below_hidden(path), f"{path!r} has no place at all")


def txn_lists(dice: Dice, _folder: Path) -> None:
    """A damaged transaction list: refused, or one that is printed and read again alike."""
    text = dice.text(dice.choice(TXN_LISTS), TXN_LISTS)
    found = ValidTxnList.parse(text)
    require(ValidTxnList.parse(found.text()) == found, f"{text!r} was read as {found.text()!r}")
    require(not text.strip() or text.strip()[0].isdigit(), f"{text!r} makes everything visible")


def write_id_lists(dice: Dice, _folder: Path) -> None:
    """A damaged write ID list: refused, or one that is printed and read again alike."""
    text = dice.text(dice.choice(WRITE_ID_LISTS), WRITE_ID_LISTS)
    found = ValidWriteIdList.parse(text)
    require(ValidWriteIdList.parse(found.text()) == found, f"{text!r} was read as {found.text()!r}")
    require(not text.strip() or ":" in text, f"{text!r} makes everything visible")


ENTRY: Final = LedgerEntry(
    job_key="dag/run/task/-1",
    generation=0,
    attempt=AttemptId(1, "0" * 12),
    statement={"kind": "1a"},
    table_id="7.1",
    txn_id=TxnId(9),
    write_id=WriteId(5),
    directories=("file:/t/delta_0000005_0000005_0000",),
    result="{}",
    recorded_s=1.5,
    retention_s=9.5,
    is_confirmed=True,
)


def _entry_text(entry: LedgerEntry) -> str:
    return json.dumps({**asdict(entry), "attempt": str(entry.attempt), "version": 2})


def ledger_entries(dice: Dice, _folder: Path) -> None:
    """A damaged entry of the ledger: refused, or one that is written and read again alike."""
    text = dice.json(_entry_text(ENTRY)).encode(errors="surrogatepass")
    found = parse_entry(text, "entry")
    again = parse_entry(_entry_text(found).encode(), "entry")
    require(repr(again) == repr(found), f"{text!r} was read as {found}")


def _read_as(cls: type, listed_as: str | None = None) -> Callable[[bytes], object]:
    return lambda text: read_notes(cls, text, "n", listed_as=listed_as)


_READERS: Final[dict[str, Callable[[bytes], object]]] = {
    "commit": _read_as(CommitNote),
    "kept": _read_as(Keeping),
    "horizon": _read_as(Horizon),
    "resets": _read_as(Reset, "resets"),
    "own compactions": _read_as(OwnCompaction, "entries"),
    "tag": _read_as(Tag),
    "owner": lambda text: parsed_owner(text, "n"),
    "feed": lambda text: feed_note("file:/f", text),
}
"""What reads each kind of note from a file's content."""


def notes(dice: Dice, folder: Path) -> None:
    """A damaged note: refused, or of numbers in their range, times and paths below the table."""
    kind = dice.choice([*_READERS, "table notes", "conversion"])
    if kind == "conversion":
        _conversion_note(dice, folder)
    elif kind == "table notes":
        _table_notes(dice, folder)
    else:
        found = _READERS[kind](dice.json(json.dumps(NOTES[kind])).encode(errors="surrogatepass"))
        for number in _numbers(found):
            require(-1 <= number <= LONG_MAX, f"{kind}: {number} is in {found}")


def _conversion_note(dice: Dice, folder: Path) -> None:
    (move,) = NOTES["conversion"]["moves"]
    body = {**NOTES["conversion"], "moves": [{**move, "location": str(folder)}]}
    (folder / "_hiveacid").mkdir(exist_ok=True)
    text = dice.json(json.dumps(body)).encode(errors="surrogatepass")
    (folder / "_hiveacid" / "_conversion.json").write_bytes(text)
    note = ConversionNote.read(str(folder))
    if note is not None and None is why_not_noted(
        note.moves, note.emptied, note.undo, note.write_id, locations=[str(folder)]
    ):
        for move in (*note.moves, *note.emptied):
            require(move.location.rstrip("/") == str(folder), f"{move} leads to another location")
            require(stays_below(move.source) and stays_below(move.target), f"{move} leads away")


def _table_notes(dice: Dice, folder: Path) -> None:
    own = TableNotes(location=str(folder), table_id="7.1")
    own.note_first_seen(PartitionName(), {"base_5": FirstSeen(high_watermark=TxnId(9), at_s=1.5)})
    own.note_highest_write_id(4, WriteId(9))
    own.note_failures("", CompactionFailures(count=2, job_key="j", last_s=1.5, why="w"))
    for path in sorted((folder / "_hiveacid").glob("_[scf]*_*.*.json")):
        path.write_bytes(dice.json(path.read_text()).encode(errors="surrogatepass"))
    seen = own.first_seen(PartitionName()).values()
    failed = own.failures([""]).values()
    numbers = [*(one.high_watermark for one in seen), *(one.count for one in failed)]
    times = [*(one.at_s for one in seen), *(one.last_s for one in failed)]
    for number in (*numbers, *times, own.highest_write_id(4) or 0):
        require(-1 <= number <= LONG_MAX, f"{number} is in {seen} or {failed}")
    for seconds in times:
        datetime.fromtimestamp(seconds, UTC)


def _numbers(value: object) -> Iterator[float]:
    """The numbers in a record."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield value
    elif is_dataclass(value):
        for entry in fields(value):
            yield from _numbers(getattr(value, entry.name))
    elif isinstance(value, Mapping | tuple | list | frozenset):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _numbers(inner)


def contracts(dice: Dice, _folder: Path) -> None:
    """A damaged spec or result: refused, or one that is written and read again alike."""
    if dice.random() < 0.5:
        spec_text = dice.json(spec(JOBS[dice.choice(list(JOBS))]).dump())
        job = JobSpec.parse(spec_text)
        require(repr(JobSpec.parse(job.dump())) == repr(job), f"{spec_text} was read as {job}")
    else:
        result_text = dice.json(dice.choice([RESULT, FAILED]).dump())
        result = JobResult.parse(result_text)
        again = JobResult.parse(result.dump())
        require(repr(again) == repr(result), f"{result_text} was read as {result}")


def sql_text(dice: Dice, _folder: Path) -> None:
    """Damaged statements: refused, or jobs in which no string of the text is missing."""
    text = dice.text(";\n".join(dice.choice(SQL) for _ in range(2)), SQL)
    for piece, statement in zip(statements_of(text), read_script(text), strict=True):
        said = " ".join(_leaves(to_json(statement.job)))
        for index, token in enumerate(piece.tokens):
            if token.kind is Kind.STRING:
                known = token.raw in said or literal_text(piece, index).lower() in said.lower()
                require(known, f"{token.raw} of {text!r} is not in {statement.job}")


def _leaves(value: object) -> Iterator[str]:
    """The texts in JSON, and partitions as they are spelled without escapes."""
    if isinstance(value, str):
        yield unescape_partition_value(value)
        yield value
    elif isinstance(value, dict):
        for entry in (*value, *value.values()):
            yield from _leaves(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _leaves(entry)


# ---- files ---------------------------------------------------------------------------------------


def side_files(dice: Dice, folder: Path) -> None:
    """A damaged side file: refused, or one of the lengths that bytes of it say."""
    delta = folder / "delta_0000001_0000010"
    delta.mkdir(exist_ok=True)
    content = dice.data(b"".join(struct.pack(">q", n) for n in (0, 700, 1500)))
    (delta / "bucket_00000_flush_length").write_bytes(content)
    listing = Listing(
        location=str(folder),
        files=(
            FileEntry(path=f"{delta.name}/bucket_00000", size_bytes=dice.choice([0, 700, 2000])),
            FileEntry(path=f"{delta.name}/bucket_00000_flush_length", size_bytes=len(content)),
        ),
    )
    state = resolve(listing, ValidWriteIdList.parse(WRITE_ID_LISTS[0]), None)
    (directory,) = state.deltas
    (file,) = directory.files
    length = committed_length(FS, str(folder), directory, file)
    whole = len(content) // 8
    require(whole and length == struct.unpack(f">{whole}q", content[: 8 * whole])[-1], content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A file that Hive wrote, with its table's columns and how many rows it has."""

    content: bytes
    tail: OrcTail
    columns: tuple[Column, ...]
    kind: read.FileKind

    @property
    def tail_start(self) -> int:
        """Where the stripes end."""
        return self.tail.stripes[-1].offset + self.tail.stripes[-1].length

    def file(self, path: Path, length: int) -> read.AcidFile:
        """The file to read, in other words."""
        made = read.SyntheticIdentity(write_id=WriteId(0), bucket_property=encode(BucketId(0)))
        return read.AcidFile(
            store=LOCAL_STORE,
            path=str(path),
            key="f",
            length=length,
            kind=self.kind,
            bucket_id=BucketId(0),
            synthetic=made if self.kind is read.FileKind.ORIGINAL else None,
        )


@functools.cache
def samples() -> tuple[Sample, ...]:
    """Small golden files with rows, of every table and kind."""
    found = []
    for case in cases():
        for path in sorted(case.table.rglob("*")):
            if parse_file_name(path.name) is not None and path.stat().st_size < _LARGEST_FILE:
                sample = _sample(case, path)
                if sample.tail.rows:
                    found.append(sample)
    return tuple(found)


def _sample(case: GoldenCase, path: Path) -> Sample:
    content = path.read_bytes()
    tail = parse_tail(str(path), content, len(content))
    is_delete = path.parent.name.startswith("delete_")
    kind = read.FileKind.DELETE if is_delete else read.FileKind.DATA
    return Sample(
        content=content,
        tail=tail,
        columns=tuple(Column(name=name, type=text) for name, text in case.columns),
        kind=kind if read.has_acid_columns(tail) else read.FileKind.ORIGINAL,
    )


def _with_tail(dice: Dice, sample: Sample, body: bytes) -> bytes:
    """The body under a damaged tail whose lengths fit, so that the damage is not met by chance."""
    footer, metadata, postscript = pb.Footer(), pb.Metadata(), pb.PostScript()
    footer.CopyFrom(sample.tail.footer)
    metadata.CopyFrom(sample.tail.metadata)
    postscript.CopyFrom(sample.tail.postscript)
    for _ in range(dice.choice([1, 1, 2, 4])):
        dice.message(dice.choice([footer, footer, footer, metadata]))
    kind, block = sample.tail.compression, sample.tail.compression_block_bytes
    sections = [compress(m.SerializeToString(), kind, block) for m in (metadata, footer)]
    postscript.metadata_length, postscript.footer_length = map(len, sections)
    if dice.random() < 0.15:
        dice.message(postscript)
    last = postscript.SerializeToString()[:255]
    return b"".join((body, *sections, last, bytes([len(last)])))


def _damaged(dice: Dice, sample: Sample) -> bytes:
    body, end = sample.content[: sample.tail_start], sample.content[sample.tail_start :]
    if dice.random() < 0.2:
        return body + dice.data(end)
    if dice.random() < 0.2:
        body = _with_stripe_footer(dice, sample)
        return body + end if body else sample.content[: dice.randrange(len(sample.content))]
    return _with_tail(dice, sample, body)


def _with_stripe_footer(dice: Dice, sample: Sample) -> bytes | None:
    """The body with a damaged footer of its last stripe, of the same length; None if it grew."""
    stripe = sample.tail.stripes[-1]
    kind, block = sample.tail.compression, sample.tail.compression_block_bytes
    start = sample.tail_start - stripe.footer_length
    footer = pb.StripeFooter()
    section = sample.content[start : sample.tail_start]
    footer.ParseFromString(decompress(section, kind, block))
    for _ in range(dice.choice([1, 1, 2])):
        dice.message(footer)
    plain = footer.SerializeToString()
    new = plain if kind == Compression.NONE else compress(plain, kind, block)
    return sample.content[:start] + new if len(new) == len(section) else None


def footers(dice: Dice, _folder: Path) -> None:
    """A damaged tail: refused, or one that says as many rows, and of which a plan can be made."""
    sample = dice.choice(samples())
    content = _damaged(dice, sample)
    tail = parse_tail("f", content, len(content))
    require(tail.rows == sample.tail.rows, f"{tail.rows} rows, not {sample.tail.rows}")
    for column_id in range(len(tail.types)):
        tail.integer_range(column_id)
        fitting_rows(tail, [column_id], 1000)
    struct_id = _FIRST_OF_ROW if read.has_acid_columns(tail) else 0
    columns = sample.columns
    plan_fields(tail, struct_id, columns, wanted=columns, form=TimestampForm.PAIR)


def files(dice: Dice, folder: Path) -> None:
    """A file under a damaged tail: refused, or read with as many rows."""
    sample = dice.choice(samples())
    content = _damaged(dice, sample)
    path = folder / "f"
    path.write_bytes(content)
    batches = read_events(
        sample.file(path, len(content)), sample.columns, timestamps=TimestampForm.PAIR
    )
    rows = sum(batch.num_rows for batch in batches)
    require(rows == sample.tail.rows, f"{rows} rows, not {sample.tail.rows}")


TARGETS: Final[dict[str, tuple[Callable[[Dice, Path], None], int]]] = {
    "names": (names, 11_000),
    "SQL text": (sql_text, 4_000),
    "transaction lists": (txn_lists, 16_000),
    "write ID lists": (write_id_lists, 16_000),
    "ledger entries": (ledger_entries, 12_000),
    "notes": (notes, 8_000),
    "contracts": (contracts, 10_000),
    "side files": (side_files, 8_000),
    "footers": (footers, 12_000),
    "files": (files, 3_000),
}
"""Each target with its mutations in one run of the tests."""
