"""Plays one interleaving again, and tells it.

    python -m tests.interleavings "v4 : insert clean" "0"

Or plays each cast of Hive, of lasting readers and of tags by chance:
`python -m tests.interleavings --more 1000`, with other seeds by `HIVEACID_SEED`.
"""

from __future__ import annotations

import logging
import sys

from tests.interleavings.scene import Scene
from tests.interleavings.schedules import Plan, perform
from tests.interleavings.stand_ins import installed
from tests.interleavings.test_interleavings import MORE, wander_through

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    if sys.argv[1] == "--more":
        print(wander_through(MORE, seeds=int(sys.argv[2])), "interleavings, none wrong")  # noqa: T201
        sys.exit()
    with installed():
        played = perform(Scene.parse(sys.argv[1]), Plan.parse(sys.argv[2]))
    for line in played.world.log:
        print(line)  # noqa: T201 -- a command's answer
