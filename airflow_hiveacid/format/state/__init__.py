"""The state of a root for one reader or one version, derived from file and directory names."""
