"""The planners: one package a method, one file an algorithm."""
