"""The project's addresses in a package's metadata, named by whoever builds it for others.

    HOLDFAST_URL=https://HOST/OWNER/holdfast pip wheel --no-deps .

The project has no host of its own, and an address that nobody here owns could be anybody's
tomorrow. So the metadata has addresses only if a build says them.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PAGES = {
    "Homepage": "",
    "Documentation": "docs/index.md",
    "Changelog": "CHANGELOG.md",
    "Source": "",
}


def addresses(home: str) -> dict[str, str]:
    """What a package index links to; nothing without a home."""
    home = home.strip().rstrip("/")
    if not home:
        return {}
    if not home.startswith("https://"):
        raise ValueError(f"HOLDFAST_URL is not https://...: {home}")
    return {name: f"{home}/{page}".rstrip("/") for name, page in _PAGES.items()}


class Addresses(MetadataHookInterface):
    """What hatchling asks for `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["urls"] = addresses(os.environ.get("HOLDFAST_URL", ""))
