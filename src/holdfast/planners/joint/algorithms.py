"""The algorithms of joint planning by name, for whoever offers them and whoever runs them."""

from __future__ import annotations

ALGORITHMS = {
    "auto": "exact where all segments can be listed, else large",
    "exact": "all segments and levels, least fixed point over the load: proved optimal",
    "large": "a spread of segments, with a proved bound",
    "exhaustive": "every plan there is; small topologies only",
}
