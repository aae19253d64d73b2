"""The commands of the use cases.

    python -m tests.proofs.courses W13 [--small | --scale 0.1] [--systems hiveacid delta ...]
    python -m tests.proofs.courses W16 [--small | --minutes 60 --kills 20]
                                       [--streams python-files python-kafka spark-files ...]
    python -m tests.proofs.courses report

W13, W14, W15 and W17 run with each system in its own process, one after the other; `all` is these
four. The figures are in build/courses.json and build/courses-killed.json, those of W16 in
build/courses-streams.json; those of a use case replace its former ones. With `--small`, they are in
build/courses-small.json and so on. `report` writes those of full size into
docs/evidence/use-cases.md, with charts. It exits with 1 if a row is wrong, lost, doubled or half
seen.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, Final

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.local.process import LocalServerError
from tests.proofs.bench.lab import FOLDER, REPOSITORY, Setting, Strength, laboratory
from tests.proofs.bench.recorder import Recorder, WrongRowsError
from tests.proofs.bench.records import OURS, Record, merged, read_records, write_records
from tests.proofs.courses import report, streams
from tests.proofs.courses.cases import USE_CASES, UseCase
from tests.proofs.courses.course import Course
from tests.proofs.courses.kills import run_with_kills
from tests.proofs.courses.tables import IN_PYTHON, SETTINGS
from tests.proofs.programs import Say, clocked, end_orderly, refuse_unknown

_BUILD: Final = REPOSITORY / "build"
_KILLED: Final = "-killed"
_STREAMS: Final = "-streams"
_SMALL: Final = 0.002
_WARM_UP: Final = 0.002
_ALL: Final = "all"
_REPORT: Final = "report"
_W16: Final = "W16"
_STREAM_NAMES: Final = tuple(f"{e}-{s}" for e in streams.ENGINES for s in streams.SOURCES)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = _parser()
    given = parser.parse_args(argv)
    refuse_unknown(parser, "stream", given.streams, _STREAM_NAMES)
    end_orderly()
    say = clocked()
    try:
        if given.what == _REPORT:
            _report(say)
        elif given.what == _W16:
            return _run_streams(given, say)
        else:
            names = USE_CASES if given.what == _ALL else [given.what]
            for name in names:
                _run(USE_CASES[name], given, say)
    except (WrongRowsError, LocalServerError, HiveAcidError, OSError, CalledProcessError) as error:
        say(f"FAILED: {error}")
        return 1
    return 0


# ---- large changes -------------------------------------------------------------------------------


def _run(case: UseCase, given: argparse.Namespace, say: Say) -> None:
    """Run a use case with all systems, or with the one of this process."""
    scaled = case.scaled(_SMALL if given.small else given.scale)
    if given.one:
        _run_one(scaled, given.one, given, say)
        return
    new: list[Record] = []
    killed: list[Any] = []
    for system in given.systems:
        command = [sys.executable, "-m", "tests.proofs.courses", case.name, "--one", system]
        command += ["--scale", str(given.scale), "--threads", str(given.threads)]
        command += ["--driver-memory", given.driver_memory, *(["--small"] if given.small else [])]
        subprocess.run(command, check=True, cwd=REPOSITORY)
        new += read_records(_part(system))
        killed += _read(_part(system, "killed"), [])
    setting = Setting.read_beside(_part(given.systems[0]))
    records, deaths = figures_file("", small=given.small), figures_file(_KILLED, small=given.small)
    former = read_records(records) if records.exists() else ()
    write_records(records, merged(former, new, [*USE_CASES]))
    setting.write_beside(_of_case(case, records))
    _write(deaths, {**_read(deaths, {}), **({case.name: killed} if killed else {})})
    for name, figures in report.figures(new).items():
        for system, figure in figures.items():
            say(
                f"{case.name} {name} {system}: {figure.seconds:.2f} s, CPU {figure.cpu_seconds:.2f}"
            )


def _run_one(case: UseCase, system: str, given: argparse.Namespace, say: Say) -> None:
    strength = Strength(
        repeats=case.rounds,
        warms_up=not given.small,
        threads=given.threads,
        driver_memory=given.driver_memory,
    )
    settings = SETTINGS[system](FOLDER)
    is_ours = system in (OURS, IN_PYTHON)
    with laboratory(f"lab-{system}", strength, settings=settings, on_postgres=is_ours) as lab:
        path = _part(system)

        def recorder() -> Recorder:
            return Recorder(
                lab=lab, process=system, repeats=1, rehearses=False, say=say, keep=lambda _: None
            )

        if strength.warms_up:
            small = USE_CASES[case.name].scaled(_WARM_UP)
            Course(case=small, system=system, recorder=recorder(), name="warm").run()
        measured = recorder()
        Course(case=case, system=system, recorder=measured, name=case.name.lower()).run()
        write_records(path, measured.records)
        lab.setting(strength, case.words).write_beside(path)
        killed = []
        if case.is_killed and is_ours:
            killed.append(asdict(run_with_kills(case, system, recorder())))
        _write(_part(system, "killed"), killed)


def _part(system: str, what: str = "records") -> Path:
    """Return the file of one process's figures."""
    return FOLDER / f"courses-{system}-{what}.json"


def figures_file(what: str, *, small: bool) -> Path:
    """Return the file of the figures of all use cases."""
    return _BUILD / f"courses{'-small' if small else ''}{what}.json"


def _of_case(case: UseCase, records: Path) -> Path:
    """Return the name beside which the setting of a use case lies."""
    return records.with_stem(f"{records.stem}-{case.name.lower()}")


# ---- streams -------------------------------------------------------------------------------------


def _run_streams(given: argparse.Namespace, say: Say) -> int:
    is_good, file = True, figures_file(_STREAMS, small=given.small)
    for name in given.streams or _STREAM_NAMES:
        engine, source = name.split("-")
        course = streams.StreamCourse(
            engine=engine,
            source=source,
            minutes=2 if given.small else given.minutes,
            kills=2 if given.small else given.kills,
        )
        say(f"{name}: {course.minutes:g} minutes, {course.kills} kills")
        folder = given.folder and given.folder / name
        outcome = streams.run_stream(course, say, folder)
        _write(file, {**_read(file, {}), name: asdict(outcome)})
        is_good &= not outcome.wrong
    return 0 if is_good else 1


# ---- the page ------------------------------------------------------------------------------------


def _report(say: Say) -> None:
    file = figures_file("", small=False)
    records = read_records(file) if file.exists() else ()
    killed = _read(figures_file(_KILLED, small=False), {})
    for case in USE_CASES.values():
        found = [record for record in records if record.part == case.name]
        if found:
            setting = Setting.read_beside(_of_case(case, file))
            report.write_case(_sized(case, found), found, setting, killed.get(case.name, []))
    if outcomes := _read(figures_file(_STREAMS, small=False), {}):
        report.write_streams(outcomes)
    say(f"written into {report.PAGE.relative_to(REPOSITORY)}")


def _sized(case: UseCase, records: Sequence[Record]) -> UseCase:
    """Return the use case in the size that was measured."""
    loaded = next(record.rows for record in records if record.case.endswith(".load"))
    return case.scaled(loaded / case.rows)


def _read(file: Path, default: Any) -> Any:  # noqa: ANN401 - as JSON is
    return json.loads(file.read_text()) if file.exists() else default


def _write(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.courses", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("what", choices=(*USE_CASES, _W16, _ALL, _REPORT), nargs="?", default=_ALL)
    add("--small", action="store_true", help="few rows or two minutes: a look that it runs")
    add("--scale", type=float, default=1.0, help="of the sizes of large changes (%(default)s)")
    add("--systems", nargs="+", choices=tuple(SETTINGS), default=tuple(SETTINGS))
    add("--threads", type=int, default=os.cpu_count(), help="of Spark (%(default)s)")
    add("--driver-memory", default="4g", help="heap of Spark's JVM (%(default)s)")
    add("--streams", nargs="*", default=(), help=f"of {', '.join(_STREAM_NAMES)}")
    add("--minutes", type=float, default=60.0, help="of each stream (%(default)s)")
    add("--kills", type=int, default=20, help="of each stream's writer (%(default)s)")
    add("--folder", type=Path, help="where the files of streams stay; removed by default")
    add("--one", choices=tuple(SETTINGS), help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
