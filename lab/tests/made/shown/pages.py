"""The report in a browser, and functions that read its HTML."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">'


CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


QUIET = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Elements(HTMLParser):
    """Start tags with their attributes, and the text of each table cell."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@dataclass
class Visit:
    """A page, with its console messages and its requests while it opened."""

    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    # Chromium's own sandbox does not start as root, where continuous integration runs.
    arguments = [*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=arguments)
        yield started
        started.close()


def visit(browser: Browser, path: Path, width: int = 1280, **context: Any) -> Visit:
    page = browser.new_context(viewport={"width": width, "height": 900}, **context).new_page()
    seen = Visit(page)
    page.on("console", lambda message: seen.console.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.console.append(f"error: {error}"))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(path.as_uri())
    if context.get("java_script_enabled", True):
        page.wait_for_function("() => document.documentElement.dataset.charts === 'live'", timeout=60_000)
        show_charts(page)
    return seen


def show_charts(page: Page) -> None:
    """Brings each chart near the window, where it is made live, and goes back to the top."""
    for figure in page.locator("figure:has(.drawings)").all():
        if figure.is_visible():
            figure.scroll_into_view_if_needed()
            handle = figure.element_handle()
            page.wait_for_function("each => each.dataset.chart === 'live'", arg=handle, timeout=60_000)
    page.evaluate("scrollTo(0, 0)")
