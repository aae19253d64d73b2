"""The OpenLineage datasets of files: one dataset for each location.

OpenLineage's naming rules give the files of each store a namespace and a name, so that a location
is the same dataset in the events of all tools. S3 has the scheme `s3`, whichever of its schemes
Hadoop uses, and keys in object stores start without a slash.

Example:
    >>> name_of("s3a://bucket/landing/day"), name_of("hdfs://nn:8020/landing/")
    (('s3://bucket', 'landing/day'), ('hdfs://nn:8020', '/landing'))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.providers.common.compat.openlineage.facet import Dataset, OutputDataset

_OBJECT_STORES: Final = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}


def files_read(locations: Iterable[str]) -> list[Dataset]:
    """Return the datasets of files that a task reads."""
    from airflow.providers.common.compat.openlineage.facet import Dataset  # noqa: PLC0415 - optional

    return [Dataset(namespace=namespace, name=name) for namespace, name in _names(locations)]


def files_written(locations: Iterable[str]) -> list[OutputDataset]:
    """Return the datasets of files that a task writes."""
    from airflow.providers.common.compat.openlineage.facet import (  # noqa: PLC0415 - optional
        OutputDataset,
    )

    return [OutputDataset(namespace=namespace, name=name) for namespace, name in _names(locations)]


def _names(locations: Iterable[str]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(name for name in map(name_of, locations) if name is not None))


def name_of(location: str) -> tuple[str, str] | None:
    """Return the namespace and the name of the files at a location, a URI.

    Return None without a scheme, because only the driver knows the store of such a location.
    """
    uri = urlsplit(location)
    path = uri.path.rstrip("/")
    if not uri.scheme:
        return None
    if uri.scheme == "file":
        return "file", path or "/"
    if uri.scheme in _OBJECT_STORES:
        return f"{_OBJECT_STORES[uri.scheme]}://{uri.netloc}", path.lstrip("/") or "/"
    return f"{uri.scheme}://{uri.netloc}", path or "/"
