"""A headless Chromium: pages as a user of a role sees them, and what the keyboard reaches.

Chromium is the system's own, because Playwright's download is not a package of any registry.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.proofs.pages.server import Airflow

PATIENCE_MS: Final = 300_000
"""How long to wait for what has to appear; machines may be busy."""

PAGE: Final = "plugin/hiveacid"
_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")

# The element with the focus: what it is, its text or label, and whether a user sees its outline.
_FOCUSED: Final = Path(__file__).with_name("focused.js").read_text()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the system's Chromium in the `with` block.

    Raises:
        RuntimeError: there is no Chromium on PATH.
    """
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is None:
        raise RuntimeError(f"none of these programs is on PATH: {', '.join(_PROGRAMS)}")
    with sync_playwright() as driver:
        # Chromium's sandbox refuses root, and containers lack its namespaces.
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def looking(
    browser: Browser,
    airflow: Airflow,
    user: str,
    *,
    is_dark: bool = False,
    width: int = 1280,
    height: int = 900,
) -> Iterator[Page]:
    """Open a window as a user of a role; `""` is not logged in."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if is_dark else "light",
    )
    try:
        context.set_default_timeout(PATIENCE_MS)
        if user:
            _log_in(context, airflow, user)
        yield context.new_page()
    finally:
        context.close()


def _log_in(context: BrowserContext, airflow: Airflow, user: str) -> None:
    path = f"{airflow.base_path}/"
    cookie = {"name": "_token", "value": airflow.token(user), "path": path, "domain": "127.0.0.1"}
    context.add_cookies([cookie])


def fill_login(page: Page, airflow: Airflow, user: str) -> None:
    """Fill in the form of the auth manager's login page, and send it."""
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", airflow.password(user))
    page.press("input[name=password]", "Enter")


def open_list(page: Page, airflow: Airflow) -> None:
    """Open the list of tables, and wait for its rows."""
    page.goto(f"{airflow.url}/{PAGE}")
    page.wait_for_selector("#hiveacid-tables tbody tr")


def open_table(page: Page, airflow: Airflow, name: str) -> None:
    """Open the page of a table, and wait for its numbers."""
    page.goto(f"{airflow.url}/{PAGE}?table={name}&connection=hive_acid_default")
    page.wait_for_selector(".ha-numbers")


def open_queue(page: Page, airflow: Airflow) -> None:
    """Open the compaction queue, and wait for it."""
    page.goto(f"{airflow.url}/{PAGE}?view=compactions")
    page.wait_for_selector('[aria-label="Compaction queue"]')


def focused(page: Page) -> dict[str, Any] | None:
    """Return the element with the focus; see `_FOCUSED`."""
    found: dict[str, Any] | None = page.evaluate(_FOCUSED)
    return found


def tabbed(page: Page, most: int) -> Sequence[dict[str, Any]]:
    """Press Tab from the first link of our page on; return the elements that got the focus.

    The walk ends after `most` elements, or where the focus leaves our page.
    """
    page.locator("#hiveacid-page a").first.focus()
    found = []
    for _ in range(most):
        here = focused(page)
        if here is None or not here["isOurs"]:
            break
        found.append(here)
        page.keyboard.press("Tab")
    return found
