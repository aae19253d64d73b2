"""The use cases W13 to W17, beside Delta and Iceberg, and streams whose writers are killed."""
