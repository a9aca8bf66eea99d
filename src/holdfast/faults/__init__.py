"""Faults by schedule, and checkers that share nothing with what they check."""
