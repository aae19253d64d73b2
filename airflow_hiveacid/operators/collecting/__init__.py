"""The numbers that the pages show: how they are collected, and how they are stored."""
