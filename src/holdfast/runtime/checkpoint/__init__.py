"""Checkpoints of streaming queries as files: no Spark is needed to read, clone or mend them."""
