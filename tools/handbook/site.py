"""Builds a folder of HTML from the pages, for `make site`. A browser can open it from a disk.

markdown-it-py parses the pages, as it does for the check of links. Linked files that are not pages, such as
code and drawings, are copied.
"""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from jinja2 import Environment
from markdown_it.token import Token
from markupsafe import Markup

from handbook.links import OUTSIDE, headings, pages, reader
from handbook.markdown import ROOT

PLACES = {
    "README.md": "Thunderherd",
    "docs/README.md": "Documentation",
    "docs/tutorial.md": "Tutorial",
    "docs/concepts.md": "Concepts",
    "docs/generated/designs/README.md": "Designs",
    "docs/generated/primitives/README.md": "Primitives",
    "docs/generated/reference/README.md": "Reference",
    "records/README.md": "Records",
    "METHODOLOGY.md": "Method",
}
"""The links at the top of every page."""

TEMPLATE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<link rel="stylesheet" href="{{ style }}">
<a class="skip" href="#page">Skip to the page</a>
<nav aria-label="Parts"><ul>
{% for part in parts %}<li><a href="{{ part.link }}"{% if part.here %} aria-current="page"{% endif %}>{{
part.title }}</a></li>
{% endfor %}</ul></nav>
<main id="page">
{{ body }}
</main>
</html>
"""

STYLE = """\
:root { color-scheme: light dark; --text: #1f2328; --back: #fff; --soft: #f6f8fa; --line: #d1d9e0; --link:
#0b63c5; }
@media (prefers-color-scheme: dark) {
  :root { --text: #f0f6fc; --back: #0d1117; --soft: #151b23; --line: #3d444d; --link: #58a6ff; }
}
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--back); }
a { color: var(--link); }
a:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -999px; } .skip:focus { left: 8px; top: 8px; background: var(--back); }
nav { border-bottom: 1px solid var(--line); background: var(--soft); }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; margin: 0; padding: .7rem
1rem; }
nav a[aria-current] { color: var(--text); font-weight: 600; text-decoration: none; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
pre, table { display: block; max-width: 100%; overflow-x: auto; }
pre { background: var(--soft); padding: .8rem; border-radius: 6px; font-size: 14px; line-height: 1.4; }
code { font: .9em ui-monospace, monospace; }
pre code { overflow-wrap: normal; }
table { border-collapse: collapse; overflow-wrap: normal; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
th { background: var(--soft); }
img { max-width: 100%; height: auto; }
@media (max-width: 50rem) {
  p:has(> img) { overflow-x: auto; }
  img { max-width: none; }
}
"""


def build(folder: Path, root: Path = ROOT) -> int:
    """Empty a folder, write all pages into it, and return their number."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / "style.css").write_text(STYLE, encoding="utf-8")
    known = pages(root)
    for page in known:
        target = folder / page.with_suffix(".html")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_html(page, folder, root), encoding="utf-8")
    first = os.path.relpath(folder / "README.html", folder)
    (folder / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={first}"><a '
        f'href="{first}">Thunderherd</a>\n',
        encoding="utf-8",
    )
    return len(known)


def _html(page: Path, folder: Path, root: Path) -> str:
    markdown = reader()
    tokens = markdown.parse((root / page).read_text(encoding="utf-8"))
    title = page.stem
    for token, anchor in headings(tokens):
        token.attrSet("id", anchor)
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h1":
            title = inline.content.replace("\\", "")
            break
    _turn_links(tokens, page, folder, root)
    body = markdown.renderer.render(tokens, markdown.options, {})
    parts = [
        {"title": words, "link": _from(page, Path(place).with_suffix(".html")), "here": place == str(page)}
        for place, words in PLACES.items()
        if (root / place).is_file()
    ]
    # The body needs no escaping: it is rendered from this repository's own Markdown.
    return (
        Environment(autoescape=True)
        .from_string(TEMPLATE)
        .render(title=title, body=Markup(body), parts=parts, style=_from(page, Path("style.css")))
    )


def _from(page: Path, target: Path) -> str:
    return Path(os.path.relpath(target, page.parent)).as_posix()


def _turn_links(tokens: list[Token], page: Path, folder: Path, root: Path) -> None:
    for token in tokens:
        for attribute in ("href", "src"):
            link = token.attrs.get(attribute)
            if isinstance(link, str) and not OUTSIDE.match(link):
                token.attrSet(attribute, _turned(link, page, folder, root))
        _turn_links(token.children or [], page, folder, root)


def _turned(link: str, page: Path, folder: Path, root: Path) -> str:
    """Turn a link to a page into one to its HTML, and a link to a folder into one to its README.

    Copies the targets of other links.
    """
    name, mark, anchor = link.partition("#")
    if not name:
        return link
    target = Path(os.path.relpath((root / page.parent / unquote(name)).resolve(), root.resolve()))
    whole = root / target
    if whole.is_dir():
        if not (whole / "README.md").is_file():
            # A folder of code is not copied: link to the page that describes the folders.
            return _from(page, Path("ARCHITECTURE.html"))
        target = target / "README.md"
    if target.suffix == ".md":
        return _from(page, target.with_suffix(".html")) + mark + anchor
    if whole.is_file() and not (folder / target).exists():
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(whole, folder / target)
    return link
