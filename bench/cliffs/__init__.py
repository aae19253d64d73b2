"""What has been a cliff, or may be one: many partitions, deltas, columns, long texts."""
