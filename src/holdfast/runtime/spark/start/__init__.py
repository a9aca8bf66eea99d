"""Getting a session up: Java, the class archive, workers forked ready, a query run once."""
