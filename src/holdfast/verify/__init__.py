"""What checks: results read from documented formats alone; shares nothing with what it checks."""
