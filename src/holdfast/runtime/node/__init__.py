"""The node program: hosts units, sends heartbeats, takes commands."""
