from __future__ import annotations

import base64
import json

import pandas as pd
from report_pages import HOSTILE, Page

from roadworthy.report.downloads import download_bar


def test_each_link_holds_its_whole_file() -> None:
    frame = pd.DataFrame({"name": pd.Series([HOSTILE, "日本語 \ud800"], dtype=object), "value": [0.1, float("nan")]})
    others = {f"{HOSTILE}.json": json.dumps({"x": HOSTILE}), "a.svg": "data:image/svg+xml;base64,PHN2Zy8+"}
    page = Page(download_bar({"a.csv": frame, "empty.csv": frame[:0]}, others))
    assert page.scripts == []
    files = {a["download"]: a["href"] for tag, a in page.tags if tag == "a"}
    assert list(files) == ["a.csv", f"{HOSTILE}.json", "a.svg"]
    kind, text = files["a.csv"].split(";base64,")
    assert kind == "data:text/csv"
    assert base64.b64decode(text).decode() == f"name,value\n{HOSTILE},0.1\n日本語 ?,\n"
    kind, text = files[f"{HOSTILE}.json"].split(";base64,")
    assert kind == "data:application/json"
    assert json.loads(base64.b64decode(text)) == {"x": HOSTILE}
    assert files["a.svg"] == others["a.svg"]
