"""Nexus: how each operator does, by rules over its current and past statistics."""
