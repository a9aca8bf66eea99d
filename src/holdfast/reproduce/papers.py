"""The five papers: what they are called, who wrote them, when, and what each asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """One of the five designs."""

    title: str
    authors: str
    year: int
    where: str
    link: str


PAPERS: Mapping[str, Paper] = {
    "ftc": Paper(
        title="Minimum Backups for Stream Processing With Recovery Latency Guarantees",
        authors="H. Li, J. Wu, Z. Jiang, X. Li, X. Wei",
        year=2017,
        where="IEEE Transactions on Reliability 66(3)",
        link="https://doi.org/10.1109/TR.2017.2712563",
    ),
    "fastrecover": Paper(
        title="FastRecover: simple and effective fault recovery in a distributed operator-based "
        "stream processing engine",
        authors="S. Yaduvanshi",
        year=2016,
        where="Master's thesis, University of Illinois at Urbana-Champaign",
        link="https://hdl.handle.net/2142/90832",
    ),
    "ppa": Paper(
        title="Passive and Partially Active Fault Tolerance for Massively Parallel Stream "
        "Processing Engines",
        authors="L. Su, Y. Zhou",
        year=2019,
        where="IEEE Transactions on Knowledge and Data Engineering 31(1)",
        link="https://doi.org/10.1109/TKDE.2017.2720602",
    ),
    "pathfinder": Paper(
        title="Pathfinder: Fault Tolerance for Stream Processing Systems",
        authors="B. Knasmüller, C. Hochreiner, S. Schulte",
        year=2019,
        where="IEEE BigDataService 2019",
        link="https://doi.org/10.1109/BigDataService.2019.00011",
    ),
    "spate": Paper(
        title="Reliable stream data processing for elastic distributed stream processing systems",
        authors="X. Wei, Y. Zhuang, H. Li, Z. Liu",
        year=2019,
        where="Cluster Computing (Springer)",
        link="",
    ),
}
"""By the name we use for them."""
