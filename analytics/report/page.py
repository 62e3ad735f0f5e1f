"""The page: a template filled once, with a policy that lets nothing load and no other script run."""

import base64
import hashlib
import re
from collections.abc import Mapping

from analytics.report.markup import Markup
from recorder.resources import data_path

SCRIPTS = ("unpack.js", "elements.js", "tables.js", "trials.js", "timeline.js", "start.js")
_MARKER = re.compile(r"<!--(\w+)-->")


def fill(parts: Mapping[str, str]) -> str:
    """Return the page.

    Args:
        parts: HTML by the name of its marker in ``data/report/page.html``. What is put in is not looked at again, so
            a marker inside it stays text.
    """
    style = _read("style.css")
    script = "\n".join(_read("script", name) for name in SCRIPTS)
    everything = {
        **parts,
        "policy": policy(style=style, script=script),
        "style": f"<style>{style}</style>",
        "script": f"<script>{script}</script>",
    }
    return _MARKER.sub(lambda marker: everything[marker[1]], _read("page.html"))


def policy(*, style: str, script: str) -> Markup:
    """Return the content security policy: nothing is fetched, only our one script and style sheet apply.

    Style attributes are allowed: the figures carry theirs.
    """
    rules = (
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src-elem '{_hash(style)}'",
        "style-src-attr 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return Markup(f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">')


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(*parts: str) -> str:
    return data_path("report", *parts).read_text(encoding="utf-8")
