"""Units that are threads of a node: generated and file sources, exporters. Free of Spark."""
