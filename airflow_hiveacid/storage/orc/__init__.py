"""ORC files below the level of rows: footers, statistics, compression, and copies of stripes."""
