"""Conditions of a table that sensors and assets wait for, and the triggers that poll for them."""
