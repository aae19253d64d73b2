"""Runs mutations of one target in a process of its own, so that a crash is an answer, too.

    python -m tests.property.fuzz.child SEED TARGET FIRST COUNT

Findings are printed as JSON, one a line; the number at work stands in the file that the variable
`FUZZ_PROGRESS` names. The same arguments do the same.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.errors import HiveAcidError
from tests.property.fuzz.mutations import Dice
from tests.property.fuzz.targets import TARGETS, samples

_MEMORY: Final = 1 << 30
# CPU seconds. Texts of four million IDs are allowed; a mutation that never ends is not.
_LONGEST_S: Final = 60.0
_MOST_FINDINGS: Final = 5


def findings(seed: str, name: str, numbers: range, progress: Path) -> Iterator[dict[str, object]]:
    """What goes wrong in these mutations."""
    target, _ = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder, progress.open("wb", buffering=0) as at_work:
        for number in numbers:
            at_work.seek(0)
            at_work.write(b"%d" % number)
            started = time.process_time()
            found = _outcome(target, Dice(f"{seed}/{name}/{number}"), Path(folder))
            spent = time.process_time() - started
            if found is None and spent > _LONGEST_S:
                found = f"it took {spent:.0f} s"
            if found is not None:
                yield {"seed": seed, "target": name, "number": number, "finding": found}


def _outcome(target: Callable[[Dice, Path], None], dice: Dice, folder: Path) -> str | None:
    """The finding of one mutation, None if it ended well."""
    try:
        target(dice, folder)
    except HiveAcidError as error:
        causes: BaseException | None = error
        while causes is not None:
            if isinstance(causes, MemoryError) or "bad_alloc" in str(causes):
                return f"it wanted more than {_MEMORY} bytes: {error}"
            causes = causes.__cause__
        return None
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        return traceback.format_exc(limit=-6)
    return None


def _limit_memory() -> None:
    """What is in use now, and a gigabyte more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Run the mutations that the arguments name."""
    seed, name, first, count = sys.argv[1:]
    progress = Path(os.environ.get("FUZZ_PROGRESS", os.devnull))
    if name in ("footers", "files"):
        samples()
    _limit_memory()
    numbers = range(int(first), int(first) + int(count))
    for at, finding in enumerate(findings(seed, name, numbers, progress), 1):
        print(json.dumps(finding), flush=True)  # noqa: T201 - what the parent reads
        if at == _MOST_FINDINGS:
            break


if __name__ == "__main__":
    main()
