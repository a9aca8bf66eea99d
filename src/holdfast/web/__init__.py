"""A run over HTTP: what `holdfast status` knows, and the commands, behind a token."""
