"""The URIs of our assets, and their names in OpenLineage.

A URI names the Airflow connection of the metastore, because a DAG file must not look up connections
while it is parsed. `hiveacid://CONNECTION/db/table` is the table's data. If the last segment is
`compaction`, the asset is the table's need for compaction. If the last segment is `partitions`, the
asset is the table's changed partitions. The URI's query, such as `?delta_count=5`, distinguishes
watched assets of one table with different settings. Airflow calls `normalized` for each URI of our
scheme, and `openlineage_dataset` after a task.

Example:
    >>> str(AssetUri(conn_id="hive_acid_default", table=TableRef.parse("demo.Orders")))
    'hiveacid://hive_acid_default/demo/orders'
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow_hiveacid.format.table import TableRef

if TYPE_CHECKING:
    from airflow.sdk import Asset

SCHEME: Final = "hiveacid"

WHOLE_TABLE: Final = "*"
"""The partition key for unpartitioned tables, and for tasks that changed too many partitions.

No partition has this name, because Hive escapes `*` in partition names.
"""

_SEGMENTS: Final = (2, 3)  # db/table, optionally followed by the aspect


class Aspect(enum.Enum):
    """The part of a table's state that an asset represents; the value is the URI's last segment."""

    DATA = ""
    COMPACTION = "compaction"
    PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetUri:
    """The parsed parts of a URI with our scheme."""

    conn_id: str
    table: TableRef
    aspect: Aspect = Aspect.DATA
    query: str = ""

    @classmethod
    def parse(cls, parts: SplitResult) -> Self:
        """Parse the result of `urlsplit`.

        Raises:
            ValueError: the URI does not have the form that this module's docstring shows.
        """
        segments = [unquote(segment) for segment in parts.path.strip("/").split("/")]
        if not parts.netloc or len(segments) not in _SEGMENTS:
            raise ValueError(
                f"{parts.geturl()!r} is not an asset URI of a Hive ACID table: expected"
                f" {SCHEME}://CONNECTION/db/table, or the same with /compaction or /partitions"
            )
        db, name, *rest = segments
        return cls(
            conn_id=unquote(parts.netloc),
            table=TableRef.parse(f"{db}.{name}"),
            aspect=Aspect("".join(rest)),
            query=parts.query,
        )

    @classmethod
    def of(cls, asset: Asset) -> Self | None:
        """Return the URI of an asset, or None if the asset does not belong to this provider."""
        parts = urlsplit(asset.uri)
        return cls.parse(parts) if parts.scheme == SCHEME else None

    def __str__(self) -> str:
        path = "/".join(filter(None, (self.table.db, self.table.name, self.aspect.value)))
        uri = f"{SCHEME}://{quote(self.conn_id, safe='')}/{path}"
        return f"{uri}?{self.query}" if self.query else uri


def normalized(parts: SplitResult) -> SplitResult:
    """Return a URI with our scheme, with the table's name converted to lower case."""
    return urlsplit(str(AssetUri.parse(parts)))


def openlineage_dataset(asset: Asset, lineage_context: object) -> Any:  # noqa: ANN401, ARG001 - Airflow's signature
    """Return the OpenLineage dataset of an asset's table."""
    from airflow.providers.common.compat.openlineage.facet import Dataset  # noqa: PLC0415

    namespace, name = dataset_name(AssetUri.parse(urlsplit(asset.uri)))
    return Dataset(namespace=namespace, name=name)


def dataset_name(uri: AssetUri) -> tuple[str, str]:
    """Return the namespace and name of a table in OpenLineage, as in datasets of Spark and Hive.

    The namespace contains the first address of the connection's metastore.
    """
    from airflow_hiveacid.hooks.hive_acid import HiveAcidHook  # noqa: PLC0415 - only after a task

    address = urlsplit(HiveAcidHook(uri.conn_id).endpoint().uris[0])
    return f"hive://{address.netloc}", str(uri.table)
