"""The command line prints rows and directories, and each error as one line with an exit status."""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_hiveacid import __version__
from airflow_hiveacid.cli import program as cli
from airflow_hiveacid.cli.definition import COMMANDS, Command
from airflow_hiveacid.cli.view import absolute
from airflow_hiveacid.format.words import printable
from tests.judges.golden_plain import GOLDEN_PLAIN
from tests.support.cases import cases_of
from tests.support.command_line import rows_in, status_of
from tests.unit.storage.orc_tables import B0, event, insert, tombstone, write_acid

LIST = "db.t:{}:9223372036854775807::"
SCHEMA = "struct<id:int,name:string>"
HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, i, i) for i in range(3)])
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00000", [tombstone(1, 1, 2)])
    return tmp_path


def scan_of(table: Path, *, high: int = 2, schema: str = SCHEMA) -> list[str]:
    """The words of a scan of a directory with the writes up to `high`, as JSON."""
    given = f"--location {table} --write-ids {LIST.format(high)} --schema {schema}"
    return ["scan", *given.split(), "-o", "json"]


def scan(table: Path, *more: str, high: int = 2) -> int:
    return status_of([*scan_of(table, high=high), *more])


def test_scan_prints_one_json_object_a_row(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan(table) == 0
    printed = capsys.readouterr().out
    assert printed == '[\n{"id": 0, "name": "n0"},\n{"id": 2, "name": "n2"}\n]\n'


def test_scan_prints_a_text_table_by_default(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = f"scan --location {table} --write-ids {LIST.format(2)} --schema {SCHEMA}"
    assert cli.main(argv.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if line.strip()) == ["id", "name"]
    assert ["2", "n2"] in [line.split() for line in lines]
    assert lines[-1] == f"{table}: 2 rows"
    assert cli.main([*argv.split(), "--limit", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{table}: 2 rows"
    assert cli.main([*argv.split(), "--limit", "1", "--row-ids"]) == 0
    printed = capsys.readouterr().out
    assert f"1/{B0}/0" in printed
    assert "n2" not in printed
    assert "the first 1 rows; --limit N shows more, --limit 0 all" in printed


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_scan_of_no_rows_prints_an_empty_list(
    form: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = f"scan --location {table} --write-ids {LIST.format(0)} --schema {SCHEMA} -o {form}"
    assert cli.main(argv.split()) == 0
    assert capsys.readouterr().out == "[]\n"


def test_the_limit_applies_to_json_output(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan(table, "--limit", "1") == 0
    assert rows_in(capsys.readouterr().out) == [[0, "n0"]]


@pytest.mark.parametrize(("argv", "message"), cases_of(HERE / "combinations.txt"))
def test_options_that_cannot_be_combined_or_are_missing_are_named(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(shlex.split(argv)) == 2
    assert message.strip() in capsys.readouterr().err


@pytest.mark.parametrize(("argv", "message"), cases_of(HERE / "invalid_values.txt"))
def test_an_invalid_value_is_refused_before_a_server_is_called(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(shlex.split(argv)) == 2
    printed = capsys.readouterr().err
    assert message.strip() in printed
    assert printed.count("\n") == 1
    assert "--help` lists the arguments" in printed


def test_scan_prints_the_same_rows_as_csv(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan(table, "-o", "csv") == 0
    assert capsys.readouterr().out == "id,name\r\n0,n0\r\n2,n2\r\n"


def test_scan_prints_row_ids_first_if_requested(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scan(table, "--row-ids", high=1) == 0
    assert rows_in(capsys.readouterr().out) == [
        [{"writeid": 1, "bucketid": B0, "rowid": i}, i, f"n{i}"] for i in range(3)
    ]


def test_scan_reads_a_compacted_base_only_after_its_transaction_committed(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_acid(table / "base_2_v7/bucket_00000", [insert(1, 0, 77)])
    assert scan(table, "--txns", "9:7:7:") == 0
    assert rows_in(capsys.readouterr().out) == [[0, "n0"], [2, "n2"]]
    assert scan(table, "--txns", "9:9223372036854775807::") == 0
    assert rows_in(capsys.readouterr().out) == [[77, "n77"]]


def test_scan_of_an_empty_directory_prints_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scan(tmp_path) == 0
    assert capsys.readouterr().out == "[]\n"


def test_a_relative_path_starts_at_the_current_directory(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    assert scan(Path(table.name)) == 0
    assert len(rows_in(capsys.readouterr().out)) == 2
    assert absolute("file:/x") == "file:/x"
    assert absolute("/x/a:b") == "/x/a:b"
    assert absolute("d/a:b") == f"{table.parent}/d/a:b"


@pytest.mark.promise("R16")
def test_inspect_prints_the_state_of_each_directory_with_its_reason(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_acid(table / "base_1/bucket_00000", [insert(1, 0, 77)])
    assert cli.main(["inspect", "--location", str(table), "--write-ids", LIST.format(2)]) == 0
    text = capsys.readouterr().out
    for expected in ("base_1", "obsolete: covered by base_1", "delete_delta_2_2_0", "bytes"):
        assert expected in text


def test_inspect_prints_json_for_programs(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["inspect", "--location", str(table), "--write-ids", LIST.format(2), "-o", "json"]
    assert cli.main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(e["location"], e["name"], e["state"], e["rows"]) for e in found] == [
        (str(table), "delete_delta_2_2_0", "live", 1),
        (str(table), "delta_1_1_0", "live", 3),
    ]


@pytest.mark.parametrize(
    ("option", "value", "status", "error"),
    [
        ("--location", "/nowhere/at/all", 3, "LocationNotFoundError"),
        ("--location", "ftp://host/x", 2, "ConfigurationError"),
        ("--schema", "struct<id:array<int>>", 5, "UnsupportedFileError"),
    ],
)
def test_an_error_prints_one_line_with_its_type_and_sets_the_exit_status(
    table: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
    status: int,
    error: str,
) -> None:
    options = {
        "--location": str(table),
        "--write-ids": LIST.format(2),
        "--schema": SCHEMA,
        option: value,
    }
    assert status_of(["scan", *(text for pair in options.items() for text in pair)]) == status
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {error}: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_control_characters_of_a_name_are_escaped_in_errors_and_warnings(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = "000000_0\x1b]0;owned\x07\u202e\nOK: nothing to do"
    (table / odd).write_bytes(b"not ORC, but long enough to be a file")
    assert scan(table) == 5
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "000000_0\\x1b]0;owned\\x07\\u202e\\nOK" in printed
    record = logging.makeLogRecord({"msg": "found %s", "args": (odd,)})
    assert logging.lastResort is not None
    assert logging.lastResort.format(record) == f"found {printable(odd)}"


@pytest.mark.parametrize("argv", [[], ["nothing"], ["explain"], ["abort"]])
def test_a_missing_argument_prints_one_line_that_refers_to_help(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(argv) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert f"`{' '.join(['hiveacid', *[a for a in argv if a != 'nothing']])} --help`" in printed


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_help_of_a_command_lists_its_own_options_and_two_examples_that_parse(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of([command.name, "--help"]) == 0
    told = capsys.readouterr().out
    assert all(
        argument.names[-1] in told for argument in command.arguments if argument.names[0][0] == "-"
    )
    assert "--kerberos-keytab" not in told
    head, first, second = told.splitlines()[-3:]
    assert head == "examples:"
    for example in (first, second):
        words = shlex.split(example)
        assert words[:2] == ["hiveacid", command.name]
        assert cli.parser().parse_args(words[1:]).command is command


def test_the_options_of_the_metastore_are_listed_on_request_and_always_accepted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert status_of(["health", "--help-connection"]) == 0
    told = capsys.readouterr().out
    assert told.index("--delta-count") < told.index("--conn-id") < told.index("--kerberos-keytab")
    options = cli.parser().parse_args(["health", "--kerberos-keytab", "/k"])
    assert options.kerberos_keytab == "/k"


@pytest.mark.parametrize(
    ("argv", "question"),
    [("helth", "did you mean health?"), ("convert db.t --to flatt", "did you mean flat?")],
)
def test_a_misspelt_command_or_choice_is_answered_with_the_closest_one(
    argv: str, question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(argv.split()) == 2
    printed = capsys.readouterr().err
    assert question in printed
    assert printed.count("\n") == 1


def test_the_program_prints_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["--version"]) == 0
    assert capsys.readouterr().out == f"hiveacid {__version__}\n"


def test_a_damaged_file_prints_one_line_with_the_error_type(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (table / "delta_1_1_0" / "bucket_00000").write_bytes(b"no ORC file at all, but some bytes")
    assert scan(table) == 5
    assert capsys.readouterr().err.startswith("error: CorruptFileError: ")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ZeroDivisionError("oops"), 1, "error: unexpected ZeroDivisionError: oops\n"),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
    ],
)
def test_an_unexpected_error_or_an_interrupt_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    said: str,
) -> None:
    def broken(_: object) -> Iterator[str]:
        raise error

    monkeypatch.setattr("airflow_hiveacid.cli.tables.tables", broken)
    assert status_of(["tables"]) == status
    assert capsys.readouterr().err == said


def test_a_missing_package_is_named_with_the_python_that_lacks_it(tmp_path: Path) -> None:
    # As if pyenv's or conda's Python ran the command: it has no package at all.
    done = subprocess.run(
        [sys.executable, "-S", "-m", "airflow_hiveacid", "scan", "--location", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {sys.executable} runs this command, but lacks ")
    assert f"`{sys.executable} -m pip install pyarrow`" in done.stderr


def run(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "airflow_hiveacid", *argv]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def test_the_module_runs_as_a_program(table: Path) -> None:
    found = run(*scan_of(table))
    assert (found.returncode, found.stderr) == (0, "")
    assert rows_in(found.stdout) == [[0, "n0"], [2, "n2"]]


def test_an_unreachable_metastore_prints_one_line_when_run_as_a_program() -> None:
    found = run("scan", "db.t", "--metastore", "127.0.0.1:1")
    assert found.returncode == 4
    said = "error: MetastoreUnavailableError: metastore thrift://127.0.0.1:1"
    assert found.stderr.startswith(said)
    assert found.stderr.count("\n") == 1


def test_missing_time_zone_data_is_reported_with_the_package_to_install(tmp_path: Path) -> None:
    row = pa.struct([("t", pa.timestamp("ns"))])
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [event(1, 0, {"t": 5})], row=row)
    found = run(*scan_of(tmp_path, high=1, schema="struct<t:timestamp>"), TZDIR="/nowhere")
    assert found.returncode == 2
    assert found.stderr.startswith("error: ConfigurationError: ")
    assert "install tzdata" in found.stderr


def test_a_closed_pipe_ends_the_program_without_an_error_message(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, i, i) for i in range(10_000)])
    with subprocess.Popen(
        [sys.executable, "-m", "airflow_hiveacid", *scan_of(tmp_path, high=1)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.readline() == "[\n"
        program.stdout.close()
        assert program.stderr.read() == ""
    assert program.returncode == 141


@pytest.mark.parametrize(("module", "call"), [("program", "parser()"), ("definition", "COMMANDS")])
def test_defining_the_commands_imports_no_heavy_libraries(module: str, call: str) -> None:
    code = (
        f"import sys; from airflow_hiveacid.cli.{module} import *; {call};"
        "heavy = {'pyarrow', 'numpy', 'rich', 'google.protobuf', 'airflow', 'thrift'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("name", ["added_orc", "added_parquet", "added_avro"])
def test_scan_reads_an_insert_only_directory_that_hive_wrote(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = GOLDEN_PLAIN / "4.0.1" / name
    case = json.loads((folder / "case.json").read_text())
    schema = ",".join(f"{column}:{type_}" for column, type_ in case["columns"])
    given = ["--location", str(folder / "table"), "--write-ids", case["valid_write_id_list"]]
    kind = ["--insert-only", name.partition("_")[2]]
    assert cli.main(["scan", *given, *kind, "--schema", f"struct<{schema}>", "-o", "json"]) == 0
    assert sorted(rows_in(capsys.readouterr().out)) == sorted(case["rows"])
    assert cli.main(["inspect", *given, *kind]) == 0
    assert "delta_0000001_0000001" in capsys.readouterr().out
