"""What breaks: faults by schedule, and what carries them out against a run."""
