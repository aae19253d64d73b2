"""Conversions and checks of single values: types, calendars, timestamps, strings, limits."""
