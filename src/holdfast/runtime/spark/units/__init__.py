"""Units that are streaming queries."""
