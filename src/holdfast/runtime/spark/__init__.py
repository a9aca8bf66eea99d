"""What runs on Spark; with profile/spark the only place that imports pyspark."""
