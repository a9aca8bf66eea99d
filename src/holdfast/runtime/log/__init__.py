"""The slice log: records created once, Arrow slice files, trimming. See docs/reference."""
