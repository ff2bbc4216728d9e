"""One HTML file, which loads nothing and sends nothing, around what one of the pages shows.

The same in makes the same bytes. Python decides what is shown and how it reads;
assets/*.js only draw, from the JSON of charts.py.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from string import Template

from ... import __version__
from .charts import Charts
from .parts import escaped


def whole(title: str, body: str, charts: Charts) -> str:
    """Return the file."""
    style = _asset("uplot/uPlot.min.css") + _asset("page.css")
    uplot = _asset("uplot/uPlot.iife.min.js")
    script = _asset("draw.js") + _asset("page.js") + _asset("tables.js") + _asset("course.js")
    return Template(_asset("page.html")).substitute(
        policy=_policy(style, uplot, script),
        version=__version__,
        title=escaped(title),
        style=style,
        body=body,
        licence=escaped(_asset("uplot/LICENSE").replace("\n", " ")),
        data=charts.json(),
        uplot=uplot,
        script=script,
    )


def _policy(style: str, *scripts: str) -> str:
    """Content-Security-Policy: nothing is loaded, and only what is in this page by us is run."""
    allowed = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
