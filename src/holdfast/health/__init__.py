"""Detectors and budgets: pure, with the time passed in."""
