"""What single values mean: types, calendars, timestamps, texts, limits."""
