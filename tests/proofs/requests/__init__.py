"""How many requests a warehouse sends to one metastore, and when that metastore is saturated."""
