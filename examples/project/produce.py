"""Writes a file of lines into input/ every second until it is interrupted."""

import json
import random
import time
from datetime import UTC, datetime
from pathlib import Path

WORDS = ["anchor", "current", "drift", "ebb", "kelp", "reef", "rock", "swell", "tide"]


def main() -> None:
    """A file appears under its name when it is whole."""
    folder = Path(__file__).parent / "input"
    folder.mkdir(exist_ok=True)
    while True:
        now = datetime.now(UTC)
        rows = [
            {"ts": now.isoformat(), "line": " ".join(random.choices(WORDS, k=3))} for _ in range(20)
        ]
        name = f"{now:%Y%m%d-%H%M%S-%f}.json"
        hidden = folder / f".{name}"
        hidden.write_text("\n".join(map(json.dumps, rows)) + "\n")
        hidden.rename(folder / name)
        time.sleep(1)


if __name__ == "__main__":
    main()
