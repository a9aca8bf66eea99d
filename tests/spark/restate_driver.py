"""A pipeline whose operator declares no max_shards, and is rescaled while it runs, in one process.

Usage: restate_driver.py RUN GENERATION SHARDS EPOCHS [SHARDS EPOCHS ...]
As rescale_driver.py, but state changes hands through Spark's repartitioning.
"""

import sys

from tests.spark.rescale_driver import Rescaled


def main(folder, generation, steps):
    run = Rescaled(None, folder, generation=generation, most=None)
    try:
        run.deliver(4)
        for shards, epochs in steps:
            changes = run.scale(shards)
            run.deliver(epochs)
            if changes:
                run.pass_over(changes)
    finally:
        run.host.close()


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    main(sys.argv[1], numbers[0], list(zip(numbers[1::2], numbers[2::2], strict=True)))
