"""Setup of a Python worker for our tasks, and typed errors from tasks to the driver."""

from __future__ import annotations

import functools
import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from zipimport import zipimporter

from pyspark import TaskContext

from airflow_hiveacid.spark.engine.failures import worker_errors

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def task_body() -> Iterator[None]:
    """Run a task's body; pass typed errors to the driver, and speed up the worker's next task.

    In the driver's own process this function only handles typed errors.
    """
    if TaskContext.get() is not None:
        _spare_collections()
        _spare_archives()
    with worker_errors():
        yield


@functools.cache
def _spare_collections() -> None:
    """Freeze all modules once per worker, so that Spark's `gc.collect` after a task skips them."""
    gc.freeze()


def _spare_archives() -> None:
    """Forget the importers of zip archives; Python recreates them from its own cache.

    Before each task, Spark makes all importers drop their caches. Since Python 3.10, an archive's
    importer then rereads the archive's table of contents. For pyspark.zip this takes 45 ms of CPU
    time, most of the cost of a small task. Archives do not change while a worker runs.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
