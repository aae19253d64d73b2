"""The command of the campaign.

    python -m tests.proofs.campaign [--seed N] [--minutes 88] [--kills 300] [--versions 4.0.1 3.1.3]
                                    [--hdfs | --s3]

It prints its seed first, so that a run can be repeated with the same changes, dooms and
incidents; the operating system's part differs each time. It exits with 0 if nothing was lost,
doubled, half seen or left behind, and there were enough kills; with 1 otherwise. Everything stays
below build/campaign, or build/campaign-s3: the events, every process's box and log, every
reader's looks, and after a failure the tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import secrets
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.process import LocalServerError
from airflow_hiveacid.local.releases import RELEASES
from tests.proofs.campaign.ground import unmount_leftovers
from tests.proofs.campaign.part import Outcome, run_part
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.setting import FOLDER, Options, Store
from tests.proofs.programs import clocked, end_orderly

_MINUTES: Final = 88.0
_KILLS: Final = 300
_SEEDS: Final = 1 << 31
_VERSIONS: Final = tuple(release.version for release in RELEASES)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a campaign and return the exit status."""
    parser = _parser()
    asked = parser.parse_args(argv)
    on_s3 = asked.store is Store.S3
    # On S3, data of 3.1 in several files is never compacted, so its tables could not be tidied.
    versions = asked.versions or [v for v in _VERSIONS if not (on_s3 and v.startswith("3"))]
    if on_s3 and any(version.startswith("3") for version in versions):
        parser.error("tables on S3 need a 4.x metastore here")
    options = Options(
        seed=asked.seed if asked.seed is not None else secrets.randbelow(_SEEDS),
        minutes=asked.minutes,
        kills=asked.kills,
        versions=tuple(versions),
        store=asked.store,
        # Drivers that use S3 load other classes, so they need a separate archive.
        folder=FOLDER.with_name("campaign-s3") if on_s3 else FOLDER,
    )
    end_orderly()
    say, began = clocked(), time.monotonic()
    say(f'seed {options.seed}; again with: make campaign CAMPAIGN="--seed {options.seed}"')
    _clear(options.folder)
    outcomes: list[Outcome] = []
    try:
        for version in options.versions:
            file = options.folder / "events.jsonl"
            outcomes.append(run_part(options, Record(version=version, file=file, say=say)))
    except LocalServerError as error:
        say(f"FAILED: {error}")
        return 1
    facts = figures(options, outcomes, time.monotonic() - began)
    (options.folder.parent / "campaign.json").write_text(json.dumps(facts, indent=2) + "\n")
    say(json.dumps(facts, indent=2))
    for outcome in outcomes:
        for violation in outcome.violations[:20]:
            say(f"VIOLATION {outcome.record.version} {violation}")
    kills = sum(outcome.record.counts["kills"] for outcome in outcomes)
    is_good = all(outcome.is_good for outcome in outcomes)
    say(f"seed {options.seed}: {kills} of {options.kills} kills")
    say("no row lost or duplicated, no change partly visible" if is_good else "FAILED")
    return 0 if is_good and kills >= options.kills else 1


def _clear(folder: Path) -> None:
    """Remove the last campaign, except Spark's class archive, which this one can use."""
    folder.mkdir(parents=True, exist_ok=True)
    unmount_leftovers(folder)
    for entry in folder.iterdir():
        if entry.is_file():
            entry.unlink()
        elif entry.name != "spark":
            shutil.rmtree(entry)
    shutil.rmtree(folder / "spark" / "local", ignore_errors=True)


def figures(options: Options, outcomes: Sequence[Outcome], seconds: float) -> dict[str, object]:
    return {
        "seed": options.seed,
        "seconds": round(seconds),
        "kills": sum(outcome.record.counts["kills"] for outcome in outcomes),
        "parts": [
            {
                "version": outcome.record.version,
                "changes": outcome.changes,
                "polls": outcome.polls,
                "failed_polls": outcome.failed_polls,
                "violations": len(outcome.violations),
                "troubles": [dataclasses.asdict(t) for t in outcome.record.troubles],
                "counts": dict(sorted(outcome.record.counts.items())),
                "kills_at": dict(outcome.record.kills_at.most_common()),
                "errors": dict(outcome.record.errors.most_common()),
            }
            for outcome in outcomes
        ],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.campaign", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--seed", type=int, help="of changes, dooms and incidents; random by default")
    add("--minutes", type=float, default=_MINUTES, help="limit for all parts (%(default)s)")
    add("--kills", type=int, default=_KILLS, help="number that ends the campaign (%(default)s)")
    store = parser.add_mutually_exclusive_group()
    for where, text in ((Store.HDFS, "a real HDFS"), (Store.S3, "an S3 (moto)")):
        store.add_argument(
            f"--{where.value}",
            dest="store",
            action="store_const",
            const=where,
            default=Store.DISK,
            help=f"put the tables on {text}",
        )
    add("--versions", nargs="+", choices=_VERSIONS, help="of the metastore; all by default")
    return parser


if __name__ == "__main__":
    sys.exit(main())
