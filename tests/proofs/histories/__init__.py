"""Random histories of one directory, far more than tests can run, against a model and Hive."""
