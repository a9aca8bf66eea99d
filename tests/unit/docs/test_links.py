"""Every relative link and anchor of README and docs leads somewhere; every page is linked to."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")


@cache
def prose(page: Path) -> str:
    """A page without its code, where brackets mean other things."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "`code`", text)


@cache
def anchors(page: Path) -> frozenset[str]:
    """What can be linked to both on GitHub and on the built site, whose rules differ a little."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    github, site = set(), set()
    for title in re.findall(r"^#{1,6} +(.*?)(?: +#+)?$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("*", "")
        kept = re.sub(r"[^\w\s-]", "", words).strip().lower()
        github.add(re.sub(r"\s", "-", kept))
        site.add(re.sub(r"[-\s]+", "-", kept))
    return frozenset(github & site)


def links(page: Path) -> list[str]:
    return [target for target in LINK.findall(prose(page)) if "://" not in target]


def wrong(page: Path, target: str) -> str | None:
    """What is wrong with a link, if anything."""
    path, _, anchor = target.partition("#")
    if path.startswith(("mailto:", "/")):
        return f"{target}: write a relative path"
    found = (page.parent / path).resolve() if path else page
    if not found.exists():
        return f"{target}: there is no such file"
    if anchor and found.suffix == ".md" and anchor not in anchors(found):
        return f"{target}: no such heading; there is {', '.join(sorted(anchors(found)))}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_resolve(page):
    """Files exist and headings are there."""
    assert [said for target in links(page) if (said := wrong(page, target))] == []


def test_a_broken_link_or_anchor_is_seen(tmp_path):
    """The check can fail: a missing file, a missing heading; code is left alone."""
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` c\n[x](gone.md) [y](#no) [z](#a-b-c)\n```\n[code](none.md)\n```\n`[i](j)`"
    )
    assert links(page) == ["gone.md", "#no", "#a-b-c"]
    assert [bool(wrong(page, target)) for target in links(page)] == [True, True, False]


def test_every_page_can_be_reached_from_the_entrance():
    """Following links from docs/index.md finds all of them."""
    seen, walk = {DOCS / "index.md"}, [DOCS / "index.md"]
    for page in walk:
        for target in links(page):
            found = (page.parent / target.partition("#")[0]).resolve()
            if found.suffix == ".md" and found.exists() and found not in seen:
                seen.add(found)
                walk.append(found)
    # Decisions stand side by side in one folder, in the order they were made.
    assert DOCS / "decisions" / "README.md" in seen
    others = [page for page in DOCS.rglob("*.md") if page.parent.name != "decisions"]
    assert [str(page.relative_to(ROOT)) for page in others if page not in seen] == []


def test_links_out_of_the_docs_are_none():
    """The built site has only what lies in docs/."""
    out = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in DOCS.rglob("*.md")
        for target in links(page)
        if target.partition("#")[0]
        and not (page.parent / target.partition("#")[0]).resolve().is_relative_to(DOCS)
    ]
    assert out == []
