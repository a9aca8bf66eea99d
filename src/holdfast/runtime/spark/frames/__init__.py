"""The user's functions as data frames: built, checked, their plans examined."""
