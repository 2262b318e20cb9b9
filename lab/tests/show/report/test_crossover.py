"""The report of a crossover in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made.shown.pages import visit
from made.summaries.searched_crossovers import searched, told

from thunderherd.show.report.page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_opens_in_a_browser(browser: Browser, tmp_path: Path, width: int) -> None:
    file = write_report(searched("one")[-1], tmp_path / "report.html")
    seen = visit(browser, file, width)
    assert seen.console == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [file.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert seen.page.locator("#crossover-dense .live svg.marks").count() == 1
    assert seen.page.locator("section#over-dense p.answer").first.inner_text() == told("one")[0]
    seen.page.context.close()
