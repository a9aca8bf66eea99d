"""`python -m holdfast.testing.random_pipelines SEED [OPERATORS]` prints an application file."""

from __future__ import annotations

import sys

from holdfast.testing.random_pipelines import app_text

if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    sys.stdout.write(app_text(numbers[0], operators=numbers[1] if numbers[1:] else 8))
