"""Clusters as people have them, made of real servers on this machine: what runs where."""
