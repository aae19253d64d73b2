"""The queries of TPC-DS, with the same answers over ACID tables as over flat files."""
