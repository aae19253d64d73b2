"""What the pages have to do in a browser: one function for each promise.

Each function gets a running Airflow and a browser, and raises AssertionError if the promise is not
kept. What it returns is printed behind the promise. `EMPTY` runs before the first collection,
`FULL` after it, `FAILED` after a collection that failed, and `UNDER_A_PATH` where `[api] base_url`
has a path. `FAB` runs under FAB's auth manager, and `PUBLIC` where its option `auth_role_public`
gives the role Viewer to users who are not logged in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tests.proofs.pages.browser import (
    PAGE,
    fill_login,
    focused,
    looking,
    open_list,
    open_queue,
    open_table,
    tabbed,
)
from tests.proofs.pages.collect import BLOCKED, HOST, TABLES
from tests.proofs.pages.server import ROOT, Airflow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    Check = Callable[[Airflow, Browser], str]

SHOTS: Final = ROOT / "build" / "pages"
"""The folder of the screenshots."""

_ENDPOINTS: Final = (
    "hiveacid/tables",
    f"hiveacid/table?name={BLOCKED}&connection=hive_acid_default",
)
_OWNERS: Final = "hiveacid/owners"
_RUNS: Final = "api/v2/dags/hiveacid_operations/dagRuns"
_PLUGINS: Final = "api/v2/plugins"
# For a user of each role: the status of the list of plugins, of tables, of hosts and of a button.
_FAB_RIGHTS: Final = {
    "public": (403, 403, 403, 403),
    "plain_viewer": (403, 200, 403, 403),
    "user": (403, 200, 403, 200),
    "op": (200, 200, 200, 200),
    "admin": (200, 200, 200, 200),
}
_NARROW: Final = 390
_FIRST_ERROR: Final = 400
_LEAST_CONTRAST: Final = 4.5  # WCAG 2.2, 1.4.3

# The contrast of each text on our page with the first opaque background behind it; the lowest.
_CONTRAST: Final = Path(__file__).with_name("contrast.js").read_text()


# ---- before the first collection -----------------------------------------------------------------


def says_how_to_begin(airflow: Airflow, browser: Browser) -> str:
    """An empty list says which DAG to unpause."""
    with looking(browser, airflow, "viewer") as page:
        page.goto(f"{airflow.url}/{PAGE}")
        page.wait_for_selector("#hiveacid-empty")
        text = page.inner_text("#hiveacid-empty")
        _shoot(page, "empty")
    assert "Unpause the DAG hiveacid_collect" in text, text
    return text


# ---- who may do what -----------------------------------------------------------------------------


def sends_anonymous_to_the_login(airflow: Airflow, browser: Browser) -> str:
    """A user who is not logged in gets the login page, and 401 from each endpoint."""
    for path in (*_ENDPOINTS, _OWNERS):
        assert airflow.ask("", "GET", path).status_code == 401, path
    with looking(browser, airflow, "") as page:
        page.goto(f"{airflow.url}/{PAGE}")
        page.wait_for_selector("input[type=password]")
        assert "/login" in page.url, page.url
        assert page.locator("#hiveacid-page").count() == 0
        _shoot(page, f"login-{airflow.auth.name.lower()}")
        return urlsplit(page.url).path


def returns_from_the_login(airflow: Airflow, browser: Browser) -> str:
    """The form of the login page leads back to the page that the user opened."""
    with looking(browser, airflow, "") as page:
        page.goto(f"{airflow.url}/{PAGE}?table={BLOCKED}&connection=hive_acid_default")
        fill_login(page, airflow, "viewer")
        page.wait_for_selector(".ha-numbers")
        assert page.inner_text("#hiveacid-page h1") == BLOCKED
        assert urlsplit(page.url).path == f"{airflow.base_path}/{PAGE}", page.url
        return urlsplit(page.url).query


def shows_a_viewer_tables_but_no_hosts(airflow: Airflow, browser: Browser) -> str:
    """A viewer reads tables, gets 403 for hosts and sees no host on the page."""
    assert [airflow.ask("viewer", "GET", path).status_code for path in _ENDPOINTS] == [200, 200]
    assert airflow.ask("viewer", "GET", _OWNERS).status_code == 403
    with looking(browser, airflow, "viewer") as page:
        open_table(page, airflow, BLOCKED)
        page.wait_for_selector("text=hidden")
        assert HOST not in page.content()
    with looking(browser, airflow, "admin") as page:
        open_table(page, airflow, BLOCKED)
        page.wait_for_selector(f"text={HOST}")
    return "an admin sees hosts"


def refuses_a_viewers_buttons(airflow: Airflow, browser: Browser) -> str:
    """Each button of a viewer ends in 403, says so, and starts nothing."""
    before = _runs(airflow)
    with looking(browser, airflow, "viewer") as page:
        open_table(page, airflow, BLOCKED)
        for action in ("plan", "compact", "clean"):
            page.click(f"#hiveacid-{action}")
            with page.expect_response(lambda one: one.request.method == "POST") as posted:
                for _ in range(2 if action == "clean" else 1):
                    page.click("#hiveacid-yes")
            assert posted.value.status == 403, posted.value.status
            page.wait_for_selector("#hiveacid-said[role=alert]")
        text = page.inner_text("#hiveacid-said")
        _shoot(page, f"viewer-refused-{airflow.auth.name.lower()}")
    assert _runs(airflow) == before
    return text


def starts_an_admins_run(airflow: Airflow, browser: Browser) -> str:
    """A button of an admin asks, requests one run of the table, and shows the run's state."""
    before = _runs(airflow)
    with looking(browser, airflow, "admin") as page:
        open_table(page, airflow, BLOCKED)
        page.click("#hiveacid-plan")
        page.keyboard.press("Escape")
        page.wait_for_selector("#hiveacid-question", state="detached")
        page.click("#hiveacid-plan")
        page.click("#hiveacid-yes")
        page.wait_for_selector("#hiveacid-said >> text=plan: queued, requested")
        _shoot(page, f"run-{airflow.auth.name.lower()}")
        run = page.inner_text("#hiveacid-said a")
    asked = airflow.ask("admin", "GET", f"{_RUNS}/{run}").json()["conf"]
    wanted = {"action": "plan", "table": BLOCKED, "connection": "hive_acid_default"}
    assert wanted.items() <= asked.items(), asked
    assert _runs(airflow) == before + 1
    return run


def asks_twice_before_a_clean(airflow: Airflow, browser: Browser) -> str:
    """Clean asks twice, and no answer but the second Yes starts a run."""
    before = _runs(airflow)
    with looking(browser, airflow, "admin") as page:
        open_table(page, airflow, BLOCKED)
        page.click("#hiveacid-clean")
        page.click("#hiveacid-yes")
        page.wait_for_selector("#hiveacid-question >> text=cannot be restored")
        _shoot(page, f"clean-{airflow.auth.name.lower()}")
        page.get_by_role("button", name="No", exact=True).click()
        page.wait_for_selector("#hiveacid-question", state="detached")
    assert _runs(airflow) == before
    return "no run"


def has_no_documentation(airflow: Airflow, browser: Browser) -> str:  # noqa: ARG001 - as every check
    """The documentation of our endpoints does not exist, even for an admin."""
    for prefix in ("hiveacid", "hiveacid-pages"):
        for path in ("docs", "redoc", "openapi.json"):
            for user in ("", "admin"):
                status = airflow.ask(user, "GET", f"{prefix}/{path}").status_code
                assert status in (401, 404), (prefix, path, user, status)
    return "docs, redoc and openapi.json"


def changes_nothing_by_get(airflow: Airflow, browser: Browser) -> str:
    """Reading all pages sends only GET, starts no run, and our endpoints accept only GET."""
    before, verbs = _runs(airflow), set()
    with looking(browser, airflow, "admin") as page:
        page.on("request", lambda one: verbs.add(one.method))
        open_list(page, airflow)
        open_table(page, airflow, BLOCKED)
        open_queue(page, airflow)
    for path in (*_ENDPOINTS, _OWNERS):
        for verb in ("POST", "PUT", "PATCH", "DELETE"):
            assert airflow.ask("admin", verb, path).status_code == 405, (verb, path)
    run = {"action": "compact", "table": BLOCKED}
    assert airflow.ask("admin", "GET", f"{_RUNS}?conf={run}").status_code == 200
    assert verbs == {"GET"}, verbs
    assert _runs(airflow) == before
    return "other verbs: 405"


# ---- who may do what, under FAB ------------------------------------------------------------------


def hides_the_page_without_the_right_to_read_plugins(airflow: Airflow, browser: Browser) -> str:
    """Airflow hides the page from users who may not read plugins, such as FAB's role User."""
    assert airflow.ask("user", "GET", _ENDPOINTS[0]).status_code == 200
    with looking(browser, airflow, "user") as page:
        page.goto(f"{airflow.url}/{PAGE}")
        page.wait_for_selector("text=Page Not Found")
        assert page.locator("#hiveacid-page").count() == 0
        _shoot(page, "fab-without-plugins")
    return "Page Not Found"


def gives_each_role_its_rights(airflow: Airflow, browser: Browser) -> str:  # noqa: ARG001 - as every check
    """Each of FAB's roles has the rights that docs/operations/give-rights-to-pages.md lists."""
    before = _runs(airflow)
    paths = (_PLUGINS, _ENDPOINTS[0], _OWNERS)
    found = {
        user: (
            *(airflow.ask(user, "GET", path).status_code for path in paths),
            _post(airflow, user),
        )
        for user in _FAB_RIGHTS
    }
    assert found == _FAB_RIGHTS
    assert _runs(airflow) == before + 3
    return ", ".join(found)


def shows_the_role_public_nothing(airflow: Airflow, browser: Browser) -> str:
    """A user without rights can log in, but gets 403 from each endpoint and starts nothing."""
    before = _runs(airflow)
    for path in (*_ENDPOINTS, _OWNERS):
        answer = airflow.ask("public", "GET", path)
        assert (answer.status_code, answer.json()) == (403, {"detail": "Forbidden"}), path
    assert _post(airflow, "public") == 403
    assert _runs(airflow) == before
    with looking(browser, airflow, "") as page:
        page.goto(f"{airflow.url}/{PAGE}")
        fill_login(page, airflow, "public")
        page.wait_for_selector("text=Page Not Found")
        assert "sales." not in page.content()
    return "403"


def shows_no_table_of_a_hidden_dag(airflow: Airflow, browser: Browser) -> str:
    """A user who may read assets but no DAG sees no table, and the page says why."""
    tables, table = (airflow.ask("assets", "GET", path) for path in _ENDPOINTS)
    assert (tables.status_code, tables.json()["tables"], tables.json()["queue"]) == (200, [], [])
    assert "sales." not in tables.text
    assert table.status_code == 404
    assert _post(airflow, "assets") == 403
    with looking(browser, airflow, "assets") as page:
        page.goto(f"{airflow.url}/{PAGE}?table={BLOCKED}&connection=hive_acid_default")
        page.wait_for_selector("#hiveacid-missing >> text=or you may not read")
        page.goto(f"{airflow.url}/{PAGE}")
        page.wait_for_selector("#hiveacid-empty >> text=or you may not read")
        _shoot(page, "fab-without-dags")
        return page.inner_text("#hiveacid-empty")


def disables_the_buttons_of_a_hidden_dag(airflow: Airflow, browser: Browser) -> str:
    """A user who may read only the collecting DAG sees tables, and disabled buttons."""
    assert _post(airflow, "collector") == 403
    with looking(browser, airflow, "collector") as page:
        open_list(page, airflow)
        assert page.locator("#hiveacid-tables tbody tr").count() == TABLES
        open_table(page, airflow, BLOCKED)
        for action in ("plan", "compact", "clean"):
            assert page.is_disabled(f"#hiveacid-{action}"), action
        page.wait_for_selector("text=hiveacid_operations is missing, or you may not read it")
        _shoot(page, "fab-without-operations")
    return "three buttons"


def gives_anonymous_the_public_role(airflow: Airflow, browser: Browser) -> str:  # noqa: ARG001 - as every check
    """A user who is not logged in has the rights of `[fab] auth_role_public`, and no others."""
    assert [airflow.ask("", "GET", path).status_code for path in _ENDPOINTS] == [200, 200]
    assert airflow.ask("", "GET", _OWNERS).status_code == 403
    before = _runs(airflow)
    assert _post(airflow, "") == 403
    assert _runs(airflow) == before
    return "those of a viewer"


# ---- the keyboard --------------------------------------------------------------------------------


def orders_the_keyboard_in_the_list(airflow: Airflow, browser: Browser) -> str:
    """Tab reaches pages, causes, remedies, filters, headings and rows, all with an outline."""
    with looking(browser, airflow, "viewer") as page:
        open_list(page, airflow)
        found = tabbed(page, 17)
        heads = ["Table", "State", "Deltas", "Ratio", "Size", "Last compaction", "Due", "Why"]
        texts = [one["text"].strip() for one in found]
        assert texts[2].startswith("Cause 1, "), found
        cause = [texts[2], "Copy airflow hiveacid abort 77"]
        filters = ["Search tables", "State"]
        first = ["Tables", "Compactions", *cause, *filters, *heads, BLOCKED]
        assert texts[:15] == first, found
        _shoot(page, "keyboard-list")
        return _all_seen(found)


def sorts_and_searches_by_keyboard(airflow: Airflow, browser: Browser) -> str:
    """Enter on a heading sorts and keeps the focus there; typing searches."""
    with looking(browser, airflow, "viewer") as page:
        open_list(page, airflow)
        head = page.get_by_role("button", name="Deltas")
        head.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector('th[aria-sort="descending"]:has-text("Deltas")')
        assert (focused(page) or {})["text"].startswith("Deltas")
        page.keyboard.press("Space")
        page.wait_for_selector('th[aria-sort="ascending"]:has-text("Deltas")')
        page.get_by_label("Search tables").focus()
        page.keyboard.type("orders_123")
        page.wait_for_function(
            "document.querySelectorAll('#hiveacid-tables tbody tr').length === 1"
        )
        return page.inner_text(".ha-bar [role=status]")


def keeps_the_filters_in_the_address(airflow: Airflow, browser: Browser) -> str:
    """A filter changes the rows, the summary and the address, and outlives a visit to a table."""
    with looking(browser, airflow, "viewer") as page:
        open_list(page, airflow)
        page.get_by_label("State", exact=True).select_option("blocked")
        page.wait_for_selector("#hiveacid-summary >> text=1 blocked, 0 B, oldest open transaction")
        assert page.locator("#hiveacid-tables tbody tr").count() == 1
        page.get_by_role("link", name=BLOCKED).click()
        page.get_by_role("link", name="All tables").click()
        page.wait_for_selector("#hiveacid-tables tbody tr")
        assert urlsplit(page.url).query == "state=blocked", page.url
        page.reload()
        page.wait_for_selector("#hiveacid-tables tbody tr")
        assert page.locator("#hiveacid-tables tbody tr").count() == 1
        return page.inner_text("#hiveacid-summary")


def copies_a_remedy(airflow: Airflow, browser: Browser) -> str:
    """A remedy is a command of `airflow hiveacid` with a button that copies it."""
    with looking(browser, airflow, "viewer") as page:
        open_table(page, airflow, BLOCKED)
        page.get_by_role("button", name="Copy airflow hiveacid abort 77").click()
        page.wait_for_selector(".ha-copy >> text=/Copied|Selected/")
        return page.inner_text(".ha-findings code")


def keeps_the_focus_when_it_moves(airflow: Airflow, browser: Browser) -> str:
    """Enter on a row opens the table with the focus on its name; going back returns the focus."""
    with looking(browser, airflow, "viewer") as page:
        open_list(page, airflow)
        page.get_by_role("link", name="sales.orders_042").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(".ha-numbers")
        _await_focus(page, "h1", "sales.orders_042")
        page.get_by_role("link", name="All tables").focus()
        page.keyboard.press("Enter")
        _await_focus(page, "a", "sales.orders_042")
        page.go_back()
        _await_focus(page, "h1", "sales.orders_042")
        return "also for the browser's own Back"


def orders_the_keyboard_on_a_table(airflow: Airflow, browser: Browser) -> str:
    """Tab reaches the way back, the buttons in their order, then each list that scrolls."""
    with looking(browser, airflow, "viewer") as page:
        open_table(page, airflow, BLOCKED)
        page.wait_for_selector("text=hidden")
        found = tabbed(page, 40)
        names = [one["text"].strip() for one in found]
        buttons = ["All tables", "Plan", "Compact", "Kind of compaction", "Clean"]
        assert names[:5] == buttons, names
        lists = (
            "Plan",
            "Open transactions",
            "Locks",
            "Directories",
            "Versions",
            "Tags",
            "Compactions",
        )
        rest = [name for name in names[5:] if name in lists]
        assert rest == [*lists, *lists], "the jump list, then the lists"
        _shoot(page, "keyboard-table")
        return _all_seen(found)


def orders_the_keyboard_in_the_queue(airflow: Airflow, browser: Browser) -> str:
    """Tab reaches the pages, the list and the tables in it."""
    with looking(browser, airflow, "viewer") as page:
        open_queue(page, airflow)
        found = tabbed(page, 6)
        names = [one["text"].strip() for one in found]
        queued = [f"sales.orders_{number:03d}" for number in range(3)]
        assert names == ["Tables", "Compactions", "Compaction queue", *queued], names
        return _all_seen(found)


# ---- how it looks --------------------------------------------------------------------------------


def reads_well_in_light_and_dark(airflow: Airflow, browser: Browser) -> str:
    """Each text has enough contrast with its background, in Airflow's light and dark theme."""
    lowest, backgrounds = [], set()
    for is_dark in (False, True):
        with looking(browser, airflow, "viewer", is_dark=is_dark) as page:
            for name, show in _PAGES.items():
                show(page, airflow)
                found = page.evaluate(_CONTRAST)
                backgrounds.add((is_dark, found["background"]))
                lowest.append((*found["lowest"], name, "dark" if is_dark else "light"))
                _shoot(page, f"{name}-{'dark' if is_dark else 'light'}")
    assert len({color for _, color in backgrounds}) == 2, backgrounds
    ratio, *where = min(lowest)
    assert ratio >= _LEAST_CONTRAST, (round(ratio, 2), *where)
    return f"the lowest contrast is {ratio:.1f}, of {where}"


def fits_a_telephone(airflow: Airflow, browser: Browser) -> str:
    """At 390 pixels no page scrolls sideways, and Tab shows the headings that sort."""
    with looking(browser, airflow, "viewer", width=_NARROW) as page:
        for name, show in _PAGES.items():
            show(page, airflow)
            wide = page.evaluate(
                "Math.max(...[...document.querySelectorAll('#hiveacid-page, #hiveacid-page > *')]"
                ".map((one) => one.getBoundingClientRect().right))"
            )
            assert wide <= _NARROW + 1, (name, wide)
            _shoot(page, f"{name}-narrow")
        open_list(page, airflow)
        # The headings are hidden there, so the keyboard must bring them back.
        page.get_by_role("button", name="Deltas").focus()
        seen = page.evaluate("getComputedStyle(document.querySelector('thead')).clipPath")
        assert seen == "none", seen
        _shoot(page, "headings-narrow")
    return f"{len(_PAGES)} pages"


def shows_five_hundred_tables(airflow: Airflow, browser: Browser) -> str:
    """All tables are in the list; how long that takes is printed, not judged."""
    with looking(browser, airflow, "viewer") as page:
        open_list(page, airflow)
        page.get_by_role("link", name="Compactions").click()
        page.wait_for_selector('[aria-label="Compaction queue"]')
        began = time.monotonic()
        page.get_by_role("link", name="Tables", exact=True).click()
        page.wait_for_selector("#hiveacid-tables tbody tr")
        took_s = time.monotonic() - began
        assert page.locator("#hiveacid-tables tbody tr").count() == TABLES
    began = time.monotonic()
    assert len(airflow.ask("viewer", "GET", "hiveacid/tables").json()["tables"]) == TABLES
    return f"{took_s:.2f} s from the click to {TABLES} rows"


# ---- when something fails ------------------------------------------------------------------------


def tells_of_a_failed_collection(airflow: Airflow, browser: Browser) -> str:
    """After a failed collection the last numbers stay, with a link to the failed run."""
    with looking(browser, airflow, "viewer") as page:
        open_list(page, airflow)
        page.wait_for_selector("#hiveacid-collector-failed a")
        assert page.locator("#hiveacid-tables tbody tr").count() == TABLES
        _shoot(page, "collection-failed")
        return page.inner_text("#hiveacid-collector-failed")


def tells_of_a_failed_request(airflow: Airflow, browser: Browser) -> str:
    """If an endpoint fails, each page says so instead of staying empty."""
    with looking(browser, airflow, "viewer") as page:
        page.route("**/hiveacid/table*", lambda route: route.fulfill(status=500, body="{}"))
        for query in ("", "?view=compactions", f"?table={BLOCKED}"):
            page.goto(f"{airflow.url}/{PAGE}{query}")
            page.wait_for_selector("#hiveacid-error[role=alert]")
        return page.inner_text("#hiveacid-error")


# ---- below a path --------------------------------------------------------------------------------


def works_below_a_path(airflow: Airflow, browser: Browser) -> str:
    """All three pages, their links and buttons work if `[api] base_url` has a path."""
    with looking(browser, airflow, "admin") as page:
        answers: list[Any] = []

        def keep(answer: Any) -> None:  # noqa: ANN401 - playwright's, and it takes no method of a list
            answers.append(answer)

        page.on("response", keep)
        open_list(page, airflow)
        page.get_by_role("link", name=BLOCKED).click()
        page.wait_for_selector(".ha-numbers")
        assert urlsplit(page.url).path == f"{airflow.base_path}/{PAGE}", page.url
        page.click("#hiveacid-plan")
        page.click("#hiveacid-yes")
        page.wait_for_selector("#hiveacid-said a")
        open_queue(page, airflow)
        missed = [one.url for one in answers if one.status >= _FIRST_ERROR]
        assert [url for url in missed if "hiveacid" in url] == [], missed
    return urlsplit(airflow.url).path


def links_a_task_to_its_table(airflow: Airflow, browser: Browser) -> str:
    """The link of a task leads to the table's page, below the path."""
    run = airflow.fail_linked_task()
    with looking(browser, airflow, "viewer") as page:
        page.goto(f"{airflow.url}/dags/linked/runs/{run}/tasks/tag/details")
        page.get_by_role("link", name="Table", exact=True).click()
        page.wait_for_selector(".ha-numbers")
        assert urlsplit(page.url).path == f"{airflow.base_path}/{PAGE}", page.url
        assert page.inner_text("#hiveacid-page h1") == BLOCKED
        return urlsplit(page.url).query


EMPTY: Final[Sequence[Check]] = (says_how_to_begin,)
_RIGHTS: Final[Sequence[Check]] = (
    sends_anonymous_to_the_login,
    returns_from_the_login,
    shows_a_viewer_tables_but_no_hosts,
    refuses_a_viewers_buttons,
    starts_an_admins_run,
    asks_twice_before_a_clean,
    has_no_documentation,
    changes_nothing_by_get,
)
FULL: Final[Sequence[Check]] = (
    *_RIGHTS,
    orders_the_keyboard_in_the_list,
    sorts_and_searches_by_keyboard,
    keeps_the_filters_in_the_address,
    copies_a_remedy,
    keeps_the_focus_when_it_moves,
    orders_the_keyboard_on_a_table,
    orders_the_keyboard_in_the_queue,
    reads_well_in_light_and_dark,
    fits_a_telephone,
    shows_five_hundred_tables,
)
FAILED: Final[Sequence[Check]] = (tells_of_a_failed_collection, tells_of_a_failed_request)
UNDER_A_PATH: Final[Sequence[Check]] = (
    sends_anonymous_to_the_login,
    returns_from_the_login,
    works_below_a_path,
    links_a_task_to_its_table,
)
FAB: Final[Sequence[Check]] = (
    *_RIGHTS,
    hides_the_page_without_the_right_to_read_plugins,
    gives_each_role_its_rights,
    shows_the_role_public_nothing,
    shows_no_table_of_a_hidden_dag,
    disables_the_buttons_of_a_hidden_dag,
)
PUBLIC: Final[Sequence[Check]] = (gives_anonymous_the_public_role,)

_PAGES: Final[Mapping[str, Callable[[Page, Airflow], None]]] = {
    "tables": open_list,
    "table": lambda page, airflow: open_table(page, airflow, BLOCKED),
    "queue": open_queue,
}


def _runs(airflow: Airflow) -> int:
    return int(airflow.ask("admin", "GET", _RUNS).json()["total_entries"])


def _post(airflow: Airflow, user: str) -> int:
    """Send what the button Plan sends; return the status."""
    conf = {"action": "plan", "table": BLOCKED, "connection": "hive_acid_default"}
    return airflow.ask(user, "POST", _RUNS, json={"logical_date": None, "conf": conf}).status_code


def _all_seen(found: Sequence[Mapping[str, Any]]) -> str:
    hidden = [one["text"] for one in found if not one["isSeen"]]
    assert hidden == [], f"these have the focus without an outline: {hidden}"
    return f"{len(found)} stops"


def _await_focus(page: Page, tag: str, text: str) -> None:
    page.wait_for_function(
        "([tag, text]) => document.activeElement?.matches(tag)"
        " && document.activeElement.innerText === text",
        arg=[tag, text],
    )


def _shoot(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")
