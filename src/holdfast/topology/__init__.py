"""Topologies: the graph of operators that planners see, its tasks, rates and forced boundaries."""
