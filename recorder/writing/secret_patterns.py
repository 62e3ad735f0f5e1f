"""Patterns of credentials, which are always secret.

Prefixes, alphabets and lengths come from gitleaks (github.com/gitleaks/gitleaks, config/gitleaks.toml at b58d3f10,
MIT). Rules without a fixed prefix, such as 32 hexadecimal digits near "key", are omitted because they match digests and
ids, which every record contains.
"""

import re
from collections.abc import Iterable

import re2

# A prefix starts a word: 'task-…' is not 'sk-…'. In JSON the letter before it may end an escape, as in '\\nsk-…'.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
# Random characters, unlike 'sk-toggleable__label-arrow' or 'xai-for-time-series': letters next to digits, an inner
# capital, or one long word. Bounded, like every search that may fail, because an artifact's author could make it slow.
_DRAWN = r"(?=[A-Za-z0-9_-]{0,60}?(?:[A-Za-z][0-9]|[0-9][A-Za-z]|[a-z][A-Z]|[A-Za-z0-9]{20}))"
_DRAWN_AFTER = r"(?=[A-Za-z._~+/=-]{0,60}(?:[0-9]|(?<=[a-z])[A-Z]))"  # unlike YOUR_API_KEY, or a word after "bearer"
# Between two lines of a key, also inside JSON or source code. In RE2, \s does not match a vertical tab.
_GAP = r"(?:[\s\v\"',>|]|\\+[nrt]|\+(?=[\s\v]))"
_KEY_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID): [^\n\\]{0,200}"
_HEADERS = (": ", ":", "': '", '": "', '":"', r'\\": \\"', r'\\":\\"')  # as curl, Python and JSON write it
SHAPES: dict[str, str] = {
    "bearer token": rf"{_START}(?:[Bb]earer|BEARER)[ \t\r\n]+{_DRAWN_AFTER}[A-Za-z0-9._~+/=-]{{16,}}",
    "basic authorization": f"(?:{'|'.join(f'(?<=[Aa]uthorization{each})' for each in _HEADERS)})"
    r"Basic[ \t\r\n]+[A-Za-z0-9+/]{8,}={0,2}",
    # Not a port before a query, as in 'host:8080?to=a@b', nor an image tag, as in 'docker://a:3@sha256:…'.
    "password in a URL": r"(?<=://)[^\s/:@\"'<>\\{}$*?#]{0,200}:(?!\d{1,5}[?#])[^\s/@\"'<>\\{}$*]{3,}"
    r"(?=@)(?!@sha256:)",
    # Only with key lines: text about '-----BEGIN PRIVATE KEY-----' goes on with something else. The repeated groups are
    # greedy, not possessive: Python 3.11.2 ends a possessive one too early (CPython issue 101955).
    "private key": rf"-----BEGIN[ A-Z0-9]{{0,40}}PRIVATE KEY(?: BLOCK)?-----{_GAP}*+(?:{_KEY_HEADER}{_GAP}++)*"
    rf"[A-Za-z0-9+/=]{{16,}}+(?:{_GAP}++[A-Za-z0-9+/=]{{16,}}+)*"
    rf"(?:(?:{_GAP}++[A-Za-z0-9+/=]{{1,15}}+)?{_GAP}*+-----END[ A-Z0-9]{{0,40}}-----)?",
    "JSON web token": rf"{_START}eyJ[A-Za-z0-9_-]{{10,1000}}+\.eyJ[A-Za-z0-9_-]{{10,}}+(?:\.[A-Za-z0-9_-]{{5,}}+)?",
    "OpenAI, Anthropic, OpenRouter, DeepSeek": rf"{_START}sk-{_DRAWN}[A-Za-z0-9_-]{{20,}}",
    "Google": rf"{_START}AIza[0-9A-Za-z_-]{{35}}|{_START}GOCSPX-[\w-]{{28}}|{_START}ya29\.[\w-]{{20,}}",
    "AWS": rf"{_START}(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}(?![A-Za-z0-9])",
    "Azure storage": r"(?<=AccountKey=)[A-Za-z0-9+/]{80,}={0,2}",
    "Alibaba": rf"{_START}LTAI[A-Za-z0-9]{{17,26}}(?![A-Za-z0-9])",
    "GitHub": rf"{_START}gh[pousr]_[0-9A-Za-z]{{36,}}|{_START}github_pat_\w{{60,}}",
    "GitLab": rf"{_START}gl(?:pat|dt|rt|ptt|cbt|ft|imt|soat|agent|ffct)-{_DRAWN}[0-9A-Za-z_-]{{20,}}",
    "Hugging Face": rf"{_START}hf_[A-Za-z0-9]{{30,}}|{_START}api_org_[A-Za-z]{{34}}",
    "Groq": rf"{_START}gsk_[A-Za-z0-9]{{40,}}",
    "Perplexity, xAI, Tavily, NVIDIA": rf"{_START}(?:pplx|xai|tvly|nvapi)-{_DRAWN}[A-Za-z0-9_-]{{24,}}",
    "Replicate, Fireworks": rf"{_START}(?:r8|fw)_{_DRAWN}[A-Za-z0-9]{{22,}}",
    "Slack": rf"{_START}xox[abeporsc]-{_DRAWN}[0-9A-Za-z-]{{16,}}|{_START}xapp-\d-[A-Z0-9-]{{10,}}-[a-z0-9]{{16,}}",
    "Slack or Discord webhook": r"(?<=://)(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks)"
    r"/[A-Za-z0-9+/_-]{30,}",
    "Stripe": rf"{_START}(?:sk|rk|pk)_(?:test|live|prod)_{_DRAWN}[A-Za-z0-9]{{16,}}|{_START}whsec_[A-Za-z0-9]{{24,}}",
    "Square": rf"{_START}EAAA[\w-]{{50,60}}(?![\w-])",
    "SendGrid": rf"{_START}SG\.{_DRAWN}[\w-]{{16,32}}\.[\w-]{{16,64}}",
    "Mailgun": r"(?<![A-Za-z0-9_-])key-[0-9a-f]{32}(?![0-9a-f])",
    "npm": rf"{_START}npm_[A-Za-z0-9]{{36}}",
    "PyPI": r"pypi-AgE[\w-]{50,}",
    "RubyGems": rf"{_START}rubygems_[a-f0-9]{{48}}",
    "Docker": rf"{_START}dckr_pat_[\w-]{{20,}}",
    "DigitalOcean": rf"{_START}do[opr]_v1_[a-f0-9]{{64}}",
    "Heroku": rf"{_START}HRKU-AA[\w-]{{40,}}",
    "Linear": rf"{_START}lin_api_[A-Za-z0-9]{{40}}",
    "Notion": rf"{_START}ntn_[A-Za-z0-9]{{40,}}",
    "Figma": rf"{_START}figd_[\w-]{{40}}",
    "Postman": rf"{_START}PMAK-[a-f0-9]{{24}}-[a-f0-9]{{34}}",
    "Databricks": rf"{_START}dapi[a-f0-9]{{32}}(?:-\d)?(?![a-f0-9])",
    "Dynatrace": rf"{_START}dt0c01\.[A-Z0-9]{{24}}\.[A-Z0-9]{{64}}",
    "Doppler": rf"{_START}dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{{40,44}}",
    "Shopify": rf"{_START}shp(?:at|ca|pa|ss)_[a-fA-F0-9]{{32}}",
    "PlanetScale": rf"{_START}pscale_(?:tkn|oauth|pw)_[\w=.-]{{32,64}}",
    "Pulumi": rf"{_START}pul-[a-f0-9]{{40}}",
    "Grafana": rf"{_START}glc_[A-Za-z0-9+/]{{32,}}={{0,2}}|{_START}glsa_[A-Za-z0-9]{{32}}_[A-Fa-f0-9]{{8}}",
    "New Relic": rf"{_START}NRAK-[A-Z0-9]{{27}}",
    "Sentry": rf"{_START}sntry[us]_[A-Za-z0-9_+/=]{{40,}}",
    "HashiCorp": rf"{_START}hv[sb]\.[\w-]{{24,}}|{_START}[A-Za-z0-9]{{14}}\.atlasv1\.[\w=-]{{60,70}}",
    "Supabase": rf"{_START}sbp_[a-f0-9]{{40}}",
    "Artifactory": rf"{_START}AKCp[A-Za-z0-9]{{69}}",
    "age": r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}",
}
"""The pattern of each kind of credential, one entry per issuer."""

_LOOKAROUND = re.compile(r"\(\?<?([=!])((?:[^()\\[]|\\.|\[[^\]]*\])*)\)")


CONTEXTS = {"://": 3, "AccountKey=": 11, **dict.fromkeys(("Authorization", "authorization"), 13 + len(r"\": \""))}
"""What begins the text before a credential that its pattern requires, and how long that is at most."""
_ENDLESS = re.compile(r"\{(\d+),\}(?=$|\||=\{0,2\}|\(\?:\\\.\[)")


def scanner(known: Iterable[bytes]) -> re2._Regexp:
    """Return a bytes pattern that matches at least wherever a credential pattern or a known value does.

    It searches in linear time: 2 µs for a typical record, compared with over 30 µs for Python's ``re``. RE2 has no
    lookaround, so required context becomes part of the match, and forbidden context is not checked. The match need not
    reach the credential's end, so that many of them in a row are also found in linear time.
    """
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # one character per byte, because artifacts may not be UTF-8
    forms = map(re2.escape, known)
    shapes = (_without_lookaround(shape).encode() for shape in SHAPES.values())
    return re2.compile(b"|".join((*forms, *shapes)), options)


def _without_lookaround(shape: str) -> str:
    bare = shape.replace(_START, "").replace(_DRAWN, "").replace(_DRAWN_AFTER, "")
    bare = re.sub(r"\{10,1000\}.*", "{10}", bare).replace(",200}", ",}")
    bare = _ENDLESS.sub(r"{\1}", re.sub(r"(?<=[*+}])\+", "", bare))  # re2 has no possessive repetition
    return _LOOKAROUND.sub(lambda found: f"(?:{found[2]})" if found[1] == "=" else "", bare)
