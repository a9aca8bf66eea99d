"""Prices for orders: from a remote service, else from a cache, else by rules.

The service may be slow, or gone. Each request has a timeout, so that a service that is down shows
as an exception, which opens the path's circuit breaker; one that is slow shows as rows that wait.
Then prices come from what was cached, and if that has nothing either, from rules. Probes try the
service again with a few orders whose prices nobody reads; once it answers, it is used again.

    python examples/enrich.py serve 8600 &          # the service, on 127.0.0.1
    holdfast run examples/enrich.py --breaker open_s=5
    holdfast paths
"""

from __future__ import annotations

import http.server
import json
import os
import sqlite3
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast import Generator, Parquet, Pipeline

SERVICE = os.environ.get("PRICES_URL", "http://127.0.0.1:8600")
CACHE = Path(os.environ.get("PRICES_CACHE", "out/prices.db"))
TIMEOUT_S = 0.5
ORDERS_PER_EPOCH = 5
ARTICLES = 50

ORDER = "id bigint, article bigint"


class NoPriceError(LookupError):
    """The cache does not know an article."""


def orders(epoch: int, seed: int) -> list[tuple[int, int]]:
    """Who ordered what."""
    rng = np.random.default_rng((seed, epoch))
    first = epoch * ORDERS_PER_EPOCH
    return [(first + item, int(rng.integers(ARTICLES))) for item in range(ORDERS_PER_EPOCH)]


def true_price(article: int) -> int:
    """What the service says: cents."""
    return 100 + article * 37 % 900


def ask_service(articles: list[int]) -> list[int]:
    """One request for a batch; raises if there is no answer in time."""
    query = ",".join(map(str, articles))
    url = f"{SERVICE}/prices?articles={query}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - our own address
        found: list[int] = json.load(answer)
    return found


def look_up(articles: list[int]) -> list[int]:
    """Prices as they were known; raises if one is not."""
    with sqlite3.connect(f"file:{CACHE}?mode=ro", uri=True) as cache:
        known = dict(cache.execute("SELECT article, price FROM prices"))
    missing = [article for article in articles if article not in known]
    if missing:
        raise NoPriceError(f"no price of article {missing[0]}")
    return [known[article] for article in articles]


def by_rule(articles: list[int]) -> list[int]:
    """The average price."""
    return [500 for _ in articles]


def priced(find: Callable[[list[int]], list[int]]) -> Callable[[DataFrame], DataFrame]:
    """A map that adds a price to every order, a batch of rows at a time."""

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            articles = [int(row["article"]) for row in batch.to_pylist()]
            prices = find(articles) if articles else []
            yield batch.append_column("price", pa.array(prices, pa.int64()))

    return lambda frame: frame.mapInArrow(each, f"{ORDER}, price bigint")


pipeline = Pipeline("enrich", epoch="0.5s")
source = pipeline.source("orders", Generator(orders, ORDER))
prices = source.paths(
    "price",
    column="priced_by",
    service=lambda s: s.map("ask-service", priced(ask_service), deterministic=False),
    cache=lambda s: s.map("look-up", priced(look_up), deterministic=False),
    rules=lambda s: s.map("by-rule", priced(by_rule)),
)
pipeline.sink("receipts", prices, Parquet("out/receipts"))


class Service(http.server.BaseHTTPRequestHandler):
    """Answers /prices?articles=1,2,3 with a list of prices."""

    def do_GET(self) -> None:
        _, _, text = self.path.partition("articles=")
        found = [true_price(int(article)) for article in text.split(",") if article]
        data = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Not a word."""


def fill_cache(path: Path) -> None:
    """Prices of the first half of the articles, as they were known yesterday."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as cache:
        cache.execute("CREATE TABLE IF NOT EXISTS prices (article INTEGER PRIMARY KEY, price)")
        known = [(article, true_price(article)) for article in range(ARTICLES // 2)]
        cache.executemany("INSERT OR REPLACE INTO prices VALUES (?, ?)", known)


if __name__ == "__main__":
    fill_cache(CACHE)
    port = int(sys.argv[2]) if sys.argv[1:2] == ["serve"] else 8600
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Service).serve_forever()
