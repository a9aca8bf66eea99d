"""Benchmarks: plain scripts with a `main()`, compared side by side within one run."""
