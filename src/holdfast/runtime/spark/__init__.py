"""Units as Structured Streaming queries: the only package that imports pyspark."""
