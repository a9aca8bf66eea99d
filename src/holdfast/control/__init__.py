"""The coordinator: events in, commands out; everything but its shell is pure."""
