"""The recovery model: from what was measured to what a plan may promise."""
