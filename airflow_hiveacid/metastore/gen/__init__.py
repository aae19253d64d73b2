"""Stubs of the metastore, generated from ../idl; never edited."""
