"""Laboratories, stand-ins and cases that several tiers share."""
