"""Known or possible cliffs of performance: many partitions, deltas, columns, long texts."""
