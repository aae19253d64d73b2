"""Random histories of one directory, far more than tests can lead, against a model and Hive."""
