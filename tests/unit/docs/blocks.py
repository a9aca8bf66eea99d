"""The code blocks of README, tutorial and guides, each with what a test does with it.

A comment right before a block says so: `<!-- block: KIND [FILE] -->`. A block that no test runs
says why: `<!-- block: KIND REASON -->`.

| kind | what is done |
|---|---|
| `exec [FILE]` | Python, executed, in the names of the blocks before it (and of FILE) |
| `tests FOLDER` | Python tests, run by pytest on Spark beside the files of FOLDER |
| `compare` | the output of the Python block before it |
| `run-full` | commands, run on Spark by `make chaos`; always checked against the command line |
| `session` | commands of one session: run, look and kill while it runs, verify after it; likewise |
| `stranger` | commands that `scripts/stranger.py` types into a fresh clone; likewise checked |
| `parse REASON` | commands that no test runs as they are; ours exist, with their options |
| `faults` | a schedule of faults, read |
| `output REASON` | what somebody saw, or a file; not compared |
| `picture` | a drawing |
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs/tutorial.md",
    *sorted((ROOT / "docs/guides").glob("*.md")),
)
KINDS = frozenset(
    {
        *("exec", "compare", "tests", "run-full", "session", "stranger", "parse"),
        *("faults", "output", "picture"),
    }
)
NOT_RUN = frozenset({"parse", "output"})
_FENCE = re.compile(
    r"(?:^<!-- block: (?P<said>[^>]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    language: str
    text: str
    kind: str
    file: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order; without a comment the kind is empty."""
    text = page.read_text()
    found = []
    for match in _FENCE.finditer(text):
        kind, _, file = (match["said"] or "").partition(" ")
        found.append(
            Block(
                page=page,
                line=text[: match.start()].count("\n") + 1,
                language=match["language"],
                text=match["text"],
                kind=kind,
                file=file,
            )
        )
    return found


def commands(block: Block) -> list[list[str]]:
    """The commands of a shell block as words; comments and line ends are understood."""
    joined = block.text.replace("\\\n", " ")
    found = [shlex.split(line, comments=True) for line in joined.splitlines()]
    return [words for words in found if words]
