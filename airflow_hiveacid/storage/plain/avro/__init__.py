"""Avro files as Hive's AvroSerDe reads and writes them."""
