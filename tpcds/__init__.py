"""The queries of TPC-DS: the same answers over ACID tables as over flat files."""
