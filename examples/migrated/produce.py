"""Fill input/ with files of orders, one a second: python produce.py [FOLDER] [FILES].

The orders of a file lie within its second, up to three seconds out of order; one in a hundred comes
a minute late. The same files come out every time.
"""

import json
import os
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 1, 1, tzinfo=UTC)


def orders(second: int) -> list[dict[str, object]]:
    """The orders of one file."""
    rng = random.Random(second)
    found = []
    for _ in range(20):
        late_s = 60.0 if rng.random() < 0.01 else 3 * rng.random()
        ts = START + timedelta(seconds=second + rng.random() - late_s)
        found.append(
            {
                "ts": ts.isoformat(),
                "store": rng.randrange(6),
                "amount": rng.choice([0, 5, 10, 25]),
            }
        )
    return found


def write(folder: Path, second: int) -> Path:
    """One file, which appears under its name when it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"orders-{second:06d}.json"
    hidden = folder / f".{path.name}"
    hidden.write_text("\n".join(map(json.dumps, orders(second))) + "\n")
    # Spark takes files by their age.
    os.utime(hidden, times=(START.timestamp() + second,) * 2)
    return hidden.rename(path)


def main() -> None:
    """One file a second."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "input"
    for second in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000):
        write(folder, second)
        time.sleep(1)


if __name__ == "__main__":
    main()
