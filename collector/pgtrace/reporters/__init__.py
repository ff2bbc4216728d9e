"""Forms of a report. A new one is a file with a function report(), and a line in FORMATS."""

from typing import NamedTuple


class Form(NamedTuple):
    """The modules whose report(document, view) yields its text, part by part; None: there is none.

    They are imported when they are asked for: each needs libraries that the others do not.
    """

    of_captures: str
    of_results: str | None = None


FORMATS = {
    "text": Form("reporters.terminal.form", "lab.result_report"),
    "json": Form("reporters.json_form", "reporters.json_form"),
    "html": Form("reporters.html.capture_page", "lab.result_page"),
    "hlog": Form("reporters.hlog"),
    "csv": Form("reporters.csv_form"),
    "folded": Form("reporters.folded"),
    "speedscope": Form("reporters.speedscope"),
    "openmetrics": Form("reporters.openmetrics"),
}
