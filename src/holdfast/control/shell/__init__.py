"""What acts for the coordinator: server, journal, wire, files. The rest of control is pure."""
