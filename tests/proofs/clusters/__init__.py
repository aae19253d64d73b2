"""Clusters as users have them, made of real servers on this machine: what runs where."""
