"""Checks the links of Markdown pages, without the network."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from handbook.markdown import ROOT

PAGES = ("*.md", "docs/**/*.md", "records/**/*.md")
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def reader() -> MarkdownIt:
    """Return a Markdown parser with the extensions of GitHub that these pages use."""
    return MarkdownIt("commonmark").enable("table").enable("strikethrough")


def pages(root: Path = ROOT) -> list[Path]:
    """Return the paths of all pages, relative to the root."""
    found = {path for pattern in PAGES for path in root.glob(pattern)}
    return sorted(path.relative_to(root) for path in found)


def faults(root: Path = ROOT) -> list[str]:
    """Describe every broken link: page, link and reason."""
    return [
        f"{page}: ({link}): {why}"
        for page in pages(root)
        for link in links_of(root / page)
        if (why := _wrong(link, page, root))
    ]


def links_of(path: Path) -> list[str]:
    """Return the targets of all links and pictures of a page, in order."""
    return [
        str(token.attrs[attribute])
        for token in _tokens(reader().parse(path.read_text(encoding="utf-8")))
        for attribute in ("href", "src")
        if attribute in token.attrs
    ]


def _tokens(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _tokens(token.children or [])


def _wrong(link: str, page: Path, root: Path) -> str | None:
    if link.startswith("https://"):
        return None
    if OUTSIDE.match(link):
        return "only https links and paths in the repository are allowed"
    name, _, anchor = unquote(link).partition("#")
    target = (root / page.parent / name).resolve() if name else (root / page).resolve()
    if not target.is_relative_to(root.resolve()):
        return "leads out of the repository"
    if not target.exists():
        return "there is no such file"
    if anchor and target.is_dir():
        target = target / "README.md"
    if anchor and (target.suffix != ".md" or anchor not in anchors_of(target)):
        return f"{target.name} has no heading #{anchor}"
    return None


@cache
def anchors_of(path: Path) -> frozenset[str]:
    """Return the anchors of a page's headings."""
    return frozenset(name for _, name in headings(reader().parse(path.read_text(encoding="utf-8"))))


def headings(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """Yield each heading's opening token and its anchor, as GitHub names it."""
    seen: Counter[str] = Counter()
    for token, inline in pairwise(tokens):
        if token.type != "heading_open":
            continue
        text = "".join(
            child.content for child in inline.children or [] if child.type in ("text", "code_inline")
        )
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        yield token, f"{slug}-{seen[slug]}" if seen[slug] else slug
        seen[slug] += 1
