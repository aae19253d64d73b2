"""Reading of the rows that changed between two versions."""
