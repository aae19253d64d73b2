"""The command line: rows and directories out, every mistake as one line and an exit status."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_hiveacid.cli import commands as cli
from airflow_hiveacid.cli.view import absolute
from tests.judges.golden_plain import GOLDEN_PLAIN
from tests.unit.storage.orc_tables import B0, event, insert, tombstone, write_acid

LIST = "db.t:{}:9223372036854775807::"
SCHEMA = "struct<id:int,name:string>"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, i, i) for i in range(3)])
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00000", [tombstone(1, 1, 2)])
    return tmp_path


def scan(table: Path, *more: str, high: int = 2) -> int:
    return cli.main(
        [
            "scan",
            "--location",
            str(table),
            "--write-ids",
            LIST.format(high),
            "--schema",
            SCHEMA,
            "--json",
            *more,
        ]
    )


def test_scan_prints_one_json_array_a_row(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan(table) == 0
    assert capsys.readouterr().out == '[0, "n0"]\n[2, "n2"]\n'


def test_scan_prints_a_table_for_people(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = f"scan --location {table} --write-ids {LIST.format(2)} --schema {SCHEMA}"
    assert cli.main(argv.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split() for line in lines if line.strip()) == ["id", "name"]
    assert ["2", "n2"] in [line.split() for line in lines]
    assert lines[-1] == f"{table}: 2 rows"
    assert cli.main([*argv.split(), "--limit", "1", "--row-ids"]) == 0
    printed = capsys.readouterr().out
    assert f"1/{B0}/0" in printed
    assert "n2" not in printed
    assert "the first 1 rows; --limit N shows more, --limit 0 all" in printed


def test_a_limit_holds_for_json_too(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan(table, "--limit", "1") == 0
    assert capsys.readouterr().out == '[0, "n0"]\n'


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            "scan --location /t --schema struct<a:int>",
            "--location needs --write-ids, which",
        ),
        ("scan --location /t --write-ids db.t:1:1::", "--location needs --schema"),
        ("inspect --location /t", "--location needs --write-ids"),
        (
            "inspect --location /t --write-ids db.t:1:1:: --partition a=1",
            "--partition cannot be",
        ),
        ("inspect --table db.t --write-ids db.t:1:1::", "--write-ids cannot be used with --table"),
        ("scan --table db.t --schema struct<a:int>", "--schema cannot be used with --table"),
        ("scan --table flights", "expected db.table"),
    ],
)
def test_options_that_do_not_go_together_are_named(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(argv.split()) == 2
    assert message in capsys.readouterr().err


def test_scan_puts_identity_in_front_when_asked(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scan(table, "--row-ids", high=1) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [[{"writeid": 1, "bucketid": B0, "rowid": i}, i, f"n{i}"] for i in range(3)]


def test_scan_honours_the_transactions(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_acid(table / "base_2_v7/bucket_00000", [insert(1, 0, 77)])
    assert scan(table, "--txns", "9:7:7:") == 0
    assert scan(table, "--txns", "9:9223372036854775807::") == 0
    assert capsys.readouterr().out == '[0, "n0"]\n[2, "n2"]\n[77, "n77"]\n'


def test_scan_of_an_empty_directory_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scan(tmp_path) == 0
    assert capsys.readouterr().out == ""


def test_a_relative_path_is_one_from_here(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    assert scan(Path(table.name)) == 0
    assert capsys.readouterr().out.count("\n") == 2
    assert absolute("file:/x") == "file:/x"
    assert absolute("/x/a:b") == "/x/a:b"
    assert absolute("d/a:b") == f"{table.parent}/d/a:b"


@pytest.mark.promise("R16")
def test_inspect_prints_a_table_with_the_reason(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_acid(table / "base_1/bucket_00000", [insert(1, 0, 77)])
    assert cli.main(["inspect", "--location", str(table), "--write-ids", LIST.format(2)]) == 0
    text = capsys.readouterr().out
    for expected in ("base_1", "obsolete: covered by base_1", "delete_delta_2_2_0", "bytes"):
        assert expected in text


def test_inspect_prints_json_for_programs(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["inspect", "--location", str(table), "--write-ids", LIST.format(2), "--json"]
    assert cli.main(argv) == 0
    body = json.loads(capsys.readouterr().out)
    (place,) = body["roots"]
    assert (body["table"], body["write_ids"], place["location"]) == (
        None,
        LIST.format(2),
        str(table),
    )
    assert [(e["name"], e["state"], e["rows"]) for e in place["entries"]] == [
        ("delete_delta_2_2_0", "live", 1),
        ("delta_1_1_0", "live", 3),
    ]


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--write-ids", "db.t", "InvalidNameError"),
        ("--write-ids", "db.t:x:1::", "InvalidNameError"),
        ("--write-ids", "notable:1:1::", "InvalidNameError"),
        ("--txns", "1", "InvalidNameError"),
        ("--schema", "int", "InvalidNameError"),
        ("--schema", "struct<a:nothing>", "InvalidNameError"),
        ("--schema", "struct<", "InvalidNameError"),
        ("--location", "/nowhere/at/all", "LocationNotFoundError"),
        ("--location", "ftp://host/x", "ConfigurationError"),
        ("--schema", "struct<id:array<int>>", "UnsupportedFileError"),
    ],
)
def test_bad_input_is_one_typed_line_and_status_2(
    table: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, error: str
) -> None:
    options = {
        "--location": str(table),
        "--write-ids": LIST.format(2),
        "--schema": SCHEMA,
        option: value,
    }
    assert cli.main(["scan", *(text for pair in options.items() for text in pair)]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {error}: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize(
    "argv", [[], ["nothing"], ["scan"], ["inspect", "--location", "/x", "--table", "db.t"]]
)
def test_missing_options_end_with_2_too(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_damaged_files_are_one_typed_line_and_status_2(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (table / "delta_1_1_0" / "bucket_00000").write_bytes(b"no ORC file at all, but some bytes")
    assert scan(table) == 2
    assert capsys.readouterr().err.startswith("error: CorruptFileError: ")


def test_even_a_mistake_of_ours_shows_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_: argparse.Namespace) -> object:
        raise ZeroDivisionError("oops")

    assert cli.run(broken, argparse.Namespace()) == 1  # type: ignore[arg-type]
    assert capsys.readouterr().err == "error: unexpected ZeroDivisionError: oops\n"

    def stopped(_: argparse.Namespace) -> object:
        raise KeyboardInterrupt

    assert cli.run(stopped, argparse.Namespace()) == 130  # type: ignore[arg-type]


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "airflow_hiveacid", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_the_module_runs_as_a_program(table: Path) -> None:
    argv = f"scan --location {table} --write-ids {LIST.format(2)} --schema {SCHEMA} --json"
    found = run(*argv.split())
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == '[0, "n0"]\n[2, "n2"]\n'


def test_a_metastore_that_does_not_answer_is_one_line_of_a_program() -> None:
    found = run("scan", "--table", "db.t", "--metastore", "127.0.0.1:1")
    assert found.returncode == 2
    assert found.stderr.startswith("error: MetastoreUnavailableError: ")
    assert found.stderr.count("\n") == 1


def test_a_machine_without_time_zones_is_told_what_to_install(tmp_path: Path) -> None:
    row = pa.struct([("t", pa.timestamp("ns"))])
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [event(1, 0, {"t": 5})], row=row)
    argv = ["scan", "--location", str(tmp_path), "--write-ids", LIST.format(1)]
    command = [sys.executable, "-m", "airflow_hiveacid", *argv, "--schema", "struct<t:timestamp>"]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "TZDIR": "/nowhere"},
    )
    assert found.returncode == 2
    assert found.stderr.startswith("error: ConfigurationError: ")
    assert "install tzdata" in found.stderr


def test_a_reader_that_goes_away_ends_the_program_quietly(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, i, i) for i in range(30_000)])
    argv = f"scan --location {tmp_path} --write-ids {LIST.format(1)} --schema {SCHEMA} --json"
    with subprocess.Popen(
        [sys.executable, "-m", "airflow_hiveacid", *argv.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.readline() == '[0, "n0"]\n'
        program.stdout.close()
        assert program.stderr.read() == ""
    assert program.returncode == 141


def test_a_parser_costs_no_heavy_import() -> None:
    code = (
        "import sys; from airflow_hiveacid.cli.commands import parser; parser();"
        "heavy = {'pyarrow', 'numpy', 'rich', 'google.protobuf', 'airflow', 'thrift'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert found.stdout == "[]\n"


def test_the_commands_can_be_mounted_under_another_parser(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = argparse.ArgumentParser(prog="airflow hiveacid")
    cli.add_commands(top.add_subparsers())
    argv = f"scan --location {table} --write-ids {LIST.format(2)} --schema {SCHEMA} --json"
    options = top.parse_args(argv.split())
    assert cli.run(options.command, options) == 0
    assert capsys.readouterr().out == '[0, "n0"]\n[2, "n2"]\n'


@pytest.mark.parametrize("name", ["added_orc", "added_parquet", "added_avro"])
def test_scan_reads_an_insert_only_directory_that_hive_wrote(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = GOLDEN_PLAIN / "4.0.1" / name
    case = json.loads((folder / "case.json").read_text())
    schema = ",".join(f"{column}:{type_}" for column, type_ in case["columns"])
    given = ["--location", str(folder / "table"), "--write-ids", case["valid_write_id_list"]]
    kind = ["--insert-only", name.partition("_")[2]]
    assert cli.main(["scan", *given, *kind, "--schema", f"struct<{schema}>", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(rows) == sorted(case["rows"])
    assert cli.main(["inspect", *given, *kind]) == 0
    assert "delta_0000001_0000001" in capsys.readouterr().out


def test_insert_only_goes_with_a_location_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scan", "--table", "db.t", "--insert-only"]) == 2
    assert "--insert-only cannot be used with --table" in capsys.readouterr().err
