"""ORC files as containers: footers, statistics, compression, stripes copied and spliced."""
