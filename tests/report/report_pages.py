"""A page as a browser sees it, for the tests of pages."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

HOSTILE = "<script>window.pwned=1</script>"
EXPECTED = """
html head meta title style body a header div h1 h2 p button main section dl dt dd small nav ul li fieldset legend
label h3 input select option svg line circle bdi img details summary table caption thead tbody tr th td span i b br
footer script
"""
TAGS = set(EXPECTED.split())


class Page(HTMLParser):
    """Collects what a browser would see: tags with attributes, text, and the content of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def data(self, key: str = "data") -> Any:
        """What a script of the page reads, by the id of its element."""
        (text,) = (text for attributes, text in self.scripts if attributes.get("id") == key)
        return json.loads(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        known = {name: value or "" for name, value in attrs}
        self.tags.append((tag, known))
        self.open.append(tag)
        if tag == "script":
            self.scripts.append((known, ""))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self.open and self.open[-1] != "style":
            self.text += data
            if {"td", "th"} & set(self.open) and self.rows:
                self.rows[-1][-1] += data
