"""The command `own`, which records that a table owns its directory, after a move or restore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.output import Answer, shown

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


def own(options: argparse.Namespace) -> Iterator[str]:
    """Record that this metastore's table owns its directory; yield the earlier owner, if any."""
    from airflow_hiveacid.maintenance.ownership import take_ownership  # noqa: PLC0415 - pyarrow

    with cli_metastore.connected(options) as client:
        table = client.get_table(options.table)
        before = take_ownership(client, table)
    earlier = "" if before is None else str(before)
    foot = f"{table.ref} owns {table.location} now"
    if earlier:
        foot += f"; the owner was {earlier}"
    record = {"table": str(table.ref), "location": table.location, "earlier_owner": earlier}
    yield shown(Answer(records=[record], foot=foot, is_text=True), options.output)
