"""A generator of the tables and queries of TPC-DS, by DuckDB.

    python -m tests.proofs.tpcds.generate FOLDER SCALE

It runs in a separate process, with a DuckDB that has the generator built in (1.0.0), while later
ones download it from a server. It writes `TABLE.parquet` and `queries.json`, a list of texts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb


def main(folder: Path, scale: float) -> None:
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    base = duckdb.connect()
    base.execute(f"CALL dsdgen(sf={scale})")
    for (name,) in base.execute("SHOW TABLES").fetchall():
        base.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
    queries = base.execute("SELECT query FROM tpcds_queries() ORDER BY query_nr").fetchall()
    (folder / "queries.json").write_text(json.dumps([query for (query,) in queries]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
