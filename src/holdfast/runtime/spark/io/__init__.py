"""Slices into Spark and out of it."""
