"""The site that `make docs` builds from these pages.

Pages stay readable in the repository: index.md is the only list of pages, and the site's menu is
made from it. A link to a file outside of this folder becomes one to the repository. Only the
README's first DAG is also on the site: at the end of the page `FIRST_DAG`.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
REPOSITORY = PROJECT["urls"]["Source"]

project = PROJECT["name"]
author = PROJECT["authors"][0]["name"]
project_copyright = author
root_doc = "index"
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "airflow_hiveacid"
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")
FIRST_DAG = "tutorial/your-cluster"
_TITLE = "A first DAG"
_ANCHOR = "#a-first-dag"
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def to_repository(page: str, text: str) -> str:
    """Return a page's text with addresses of the repository in place of paths outside of docs/."""

    def address(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link[1]))
        if path.startswith("docs/") and path.endswith((".md", ".png", ".svg")):
            return link[0]
        if (path, link[2]) == ("README.md", _ANCHOR):
            return f"]({posixpath.relpath(FIRST_DAG, posixpath.dirname(page))}.md{_ANCHOR})"
        return f"]({REPOSITORY}/blob/main/{path}{link[2] or ''})"

    return _LINK.sub(address, text)


def with_first_dag(text: str) -> str:
    """Return a page's text with the README's first DAG before its last line."""
    titles = _SECTION.split((HERE.parent / "README.md").read_text())
    dag = titles[titles.index(_TITLE) + 1]
    head, last, tail = text.rpartition("\nNext: ")
    return f"{head}\n## {_TITLE}{dag.rstrip()}\n{last}{tail}"


def menu(text: str) -> str:
    """Return the trees of the site's menu: one for each section of index.md, in its order."""
    first, *parts = _SECTION.split(text)
    sections = [("", first), *zip(parts[::2], parts[1::2], strict=True)]
    trees, seen = "", set()
    for title, section in sections:
        pages = [link[1] for link in _LINK.finditer(section) if link[1].endswith(".md")]
        new = [page for page in dict.fromkeys(pages) if page not in seen]
        seen.update(new)
        caption = [f":caption: {title}"] if title else []
        trees += "\n".join(["", "```{toctree}", ":hidden:", *caption, "", *new, "```", ""])
    return trees


def on_source(_app: Sphinx, page: str, source: list[str]) -> None:
    """Complete the text of a page before it is parsed."""
    text = source[0]
    source[0] = to_repository(page, text)
    if page == FIRST_DAG:
        source[0] = with_first_dag(source[0])
    if page in {"index", "decisions/README"}:
        source[0] += menu(text)


def setup(app: Sphinx) -> None:
    """Register the functions above."""
    app.connect("source-read", on_source)
