"""The command of the pages.

    python -m tests.proofs.pages

It prints each check with its result, and exits with 0 if all passed, with 1 otherwise. Screenshots
are in build/pages.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.proofs.pages.browser import chromium
from tests.proofs.pages.checks import EMPTY, FAB, FAILED, FULL, PUBLIC, SHOTS, UNDER_A_PATH
from tests.proofs.pages.server import Airflow, Auth

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.proofs.pages.checks import Check


def main() -> int:
    """Run every check, and return the exit status."""
    results: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="hiveacid-pages-") as folder, chromium() as browser:
        airflow = Airflow(Path(folder) / "simple", Auth.SIMPLE)
        airflow.prepare()
        with airflow.serving():
            results += _run("empty", EMPTY, airflow, browser)
            for _ in range(2):  # a line in a chart needs two points
                airflow.collect("fine")
            results += _run("collected", FULL, airflow, browser)
            airflow.collect("failing")
            results += _run("failing", FAILED, airflow, browser)
        with airflow.serving("/airflow"):
            results += _run("base path", UNDER_A_PATH, airflow, browser)
        airflow = Airflow(Path(folder) / "fab", Auth.FAB)
        airflow.prepare()
        airflow.collect("fine")
        with airflow.serving():
            results += _run("FAB", FAB, airflow, browser)
        with airflow.serving("/airflow"):
            results += _run("FAB, path", UNDER_A_PATH, airflow, browser)
        with airflow.serving(public_role="Viewer"):
            results += _run("FAB, open", PUBLIC, airflow, browser)
    wrong = results.count(False)
    print(f"{len(results)} checks, {wrong} failed; screenshots are in {SHOTS}")
    return 1 if wrong else 0


def _run(state: str, checks: Sequence[Check], airflow: Airflow, browser: Browser) -> list[bool]:
    return [_passes(state, check, airflow, browser) for check in checks]


def _passes(state: str, check: Check, airflow: Airflow, browser: Browser) -> bool:
    promise = str(check.__doc__).splitlines()[0]
    began = time.monotonic()
    try:
        told, mark = check(airflow, browser), "ok"
    except Exception as error:  # noqa: BLE001 - the other checks must still run
        told, mark = f"{type(error).__name__}: {error}", "WRONG"
    took_s = time.monotonic() - began
    print(f"{mark:5}  {state:9}  {took_s:6.1f} s  {promise}\n{'':27}{told}", flush=True)
    return mark == "ok"


if __name__ == "__main__":
    sys.exit(main())
