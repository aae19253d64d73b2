"""The commands of `hiveacid`, one module for each topic."""
