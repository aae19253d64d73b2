"""Plays one interleaving again, and tells it: `python -m interleavings "v4 : insert clean" "0"`."""

from __future__ import annotations

import logging
import sys

from interleavings.scene import Scene
from interleavings.schedules import Plan, perform
from interleavings.stand_ins import installed

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    with installed():
        played = perform(Scene.parse(sys.argv[1]), Plan.parse(sys.argv[2]))
    for line in played.world.log:
        print(line)  # noqa: T201 -- a command's answer
