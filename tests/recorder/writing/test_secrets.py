"""Secrets: whatever their kind, none of them is in any file of a store, nor in what is made from it."""

import base64
import io
import json
import re
import string
import time
import zlib
from pathlib import Path
from random import Random
from urllib.parse import quote

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lhaw_record.command_line import main
from lhaw_record.recorder.events import ActionFinished, ArtifactStored
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.redaction import MARK, Redactor, given_secrets
from lhaw_record.recorder.writing.secret_patterns import SHAPES
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import failed

ROOT = Path(__file__).parents[3]
_random = Random(14)


def drawn(count, alphabet=string.ascii_letters + string.digits):
    """A random word."""
    return "".join(_random.choices(alphabet, k=count))


HEX, UPPER = "0123456789abcdef", string.ascii_uppercase + string.digits
JWT = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in
               ({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": "John"}))  # fmt: skip
# As the issuers print them in their documents; each is made up.
PLANTED = {
    "openai": f"sk-proj-{drawn(48)}",
    "anthropic": f"sk-ant-api03-{drawn(93)}AA",
    "openrouter": f"sk-or-v1-{drawn(64, HEX)}",
    "google": f"AIza{drawn(35)}",
    "google oauth": f"GOCSPX-{drawn(28)}",
    "aws": f"AKIA{drawn(16, string.ascii_uppercase + '234567')}",
    "github": f"ghp_{drawn(36)}",
    "github app": f"ghs_{drawn(36)}",
    "github fine": f"github_pat_{drawn(22)}_{drawn(59)}",
    "gitlab": f"glpat-{drawn(20)}",
    "hugging face": f"hf_{drawn(34)}",
    "groq": f"gsk_{drawn(52)}",
    "perplexity": f"pplx-{drawn(48)}",
    "replicate": f"r8_{drawn(37)}",
    "slack bot": f"xoxb-{drawn(12, string.digits)}-{drawn(12, string.digits)}-{drawn(24)}",
    "slack webhook": f"https://hooks.slack.com/services/T{drawn(8, UPPER)}/B{drawn(8, UPPER)}/{drawn(24)}",
    "stripe": f"sk_live_{drawn(24)}",
    "stripe test": f"rk_test_{drawn(24)}",
    "sendgrid": f"SG.{drawn(22)}.{drawn(43)}",
    "npm": f"npm_{drawn(36)}",
    "pypi": f"pypi-AgEIcHlwaS5vcmc{drawn(70)}",
    "docker": f"dckr_pat_{drawn(27)}",
    "digitalocean": f"dop_v1_{drawn(64, HEX)}",
    "databricks": f"dapi{drawn(32, HEX)}",
    "shopify": f"shpat_{drawn(32, HEX)}",
    "grafana": f"glsa_{drawn(32)}_{drawn(8, HEX)}",
    "new relic": f"NRAK-{drawn(27, UPPER)}",
    "vault": f"hvs.{drawn(90)}",
    "notion": f"ntn_{drawn(46)}",
    "linear": f"lin_api_{drawn(40)}",
    "azure": f"AccountKey={drawn(86)}==",
    "jwt": f"{JWT}.{drawn(43)}",
    "bearer": f"Bearer {drawn(40)}",
    "basic": f"Authorization: Basic {base64.b64encode(drawn(20).encode()).decode()}",
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{drawn(64)}\n{drawn(64)}\n-----END RSA PRIVATE KEY-----",
}
PASSWORD = "corr3ct-h0rse"
URLS = [f"postgres://admin:{PASSWORD}@db.internal:5432/x", f"https://bob:{PASSWORD}@example.com/a.git"]
CONFIGURED = 'plain "words" & sl/ashes+é'
SPELLINGS = {
    "as it is": CONFIGURED,
    "json": json.dumps(CONFIGURED)[1:-1],
    "url": quote(CONFIGURED, safe=""),
    **{
        f"base64 at {place}": base64.b64encode(b"abc"[:place] + CONFIGURED.encode() + b"xyz").decode()
        for place in range(3)
    },
    "urlsafe base64": base64.urlsafe_b64encode(CONFIGURED.encode()).decode(),
}


def secret_part(text):
    """What must not be found: the longest random word of a planted secret."""
    return max(re.findall(r"[A-Za-z0-9]{8,}", text), key=len)


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("around", ["{}", "KEY={}\n", '{{"key": "{}"}}', "export A='{}'; ls", "a\\n{}\\nb"])
def test_each_kind_is_found_by_both_searches(kind, around):
    """The quick search never says no where the thorough one replaces something, whatever stands around it."""
    text = around.format(PLANTED[kind])
    assert Redactor().hits(text.encode())
    assert secret_part(PLANTED[kind]) not in Redactor().clean_text(text)


@pytest.mark.parametrize("text", URLS)
def test_a_password_in_an_address_is_replaced_and_the_address_stays(text):
    """Where a service is may be known, and who asks for it may not."""
    assert Redactor().hits(text.encode())
    cleaned = Redactor().clean_text(text)
    assert PASSWORD not in cleaned
    assert cleaned.startswith(text.partition("//")[0])
    assert cleaned.endswith(text.partition("@")[2])


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_configured_value_is_found_in_every_spelling(spelling):
    """As it is, inside JSON and URLs, and in base64 at whichever byte it begins."""
    redactor = Redactor([CONFIGURED])
    text = SPELLINGS[spelling]
    assert redactor.hits(text.encode())
    assert len(redactor.clean_text(text).replace(MARK, "")) < 12


def test_an_environment_tells_its_secrets():
    """By their names or by their looks; placeholders and words stay."""
    given = {"MODE": "production", "URL": "{base_url}/v1", "X": "A1b2C3d4E5f6G7h8I9j0", "DB_PASSWORD": "correct horse"}
    assert given_secrets(given) == {"A1b2C3d4E5f6G7h8I9j0", "correct horse"}


def test_names_of_models_authors_and_places_are_no_secrets():
    """They would be replaced in every record that speaks of them; random words are found beside them."""
    plain = {
        "MODEL": "claude-sonnet-4-20250514", "FAST": "qwen3-235b-a22b-thinking-2507",
        "IMAGE": "python-3.11-slim-bookworm",
        "GIT_AUTHOR_NAME": "Jane Smith", "SSH_AUTH_SOCK": "/tmp/ssh-x/agent.1", "XAUTHORITY": "/root/.Xauthority",
        "TOKENIZER": "bert-base-uncased", "HF_TOKEN_PATH": "/root/.cache/token", "AUTH_MODE": "disabled",
    }  # fmt: skip
    secret = {
        "DB_PASS": "correct horse", "STRIPE_KEY": "mostly-harmless", "AUTHORIZATION": "say the word",
        "GIT_PAT": "open sesame",
        "A": "5f0c1b9e-7a1d-4c58-9a53-6f0e2b7d1c44", "B": drawn(40), "C": drawn(40, HEX),
    }  # fmt: skip
    assert given_secrets(plain | secret) == set(secret.values())


@pytest.mark.thorough
def test_a_dummy_key_changes_nothing():
    """Local servers take "x" or "key": such a value is no secret and stands inside words of the record itself."""
    event = failed()
    redactor = Redactor(["x", "e", "key", "seven77"])
    assert not redactor.hits(b"the key seven77")
    assert redactor.clean(event) == event


@pytest.mark.thorough
def test_a_key_spelled_like_a_word_of_the_log_hides_none():
    """A record keeps its own words, such as a boundary's name, and texts lose the key all the same."""
    event = msgspec.structs.replace(failed(), boundary="user_simulator", message="401 for user_simulator")
    cleaned = Redactor(["user_simulator", "trial_failed", "simulator"]).clean(event)
    assert cleaned == msgspec.structs.replace(event, message=f"401 for {MARK}")


KEY_LINES = [drawn(64) for _ in range(3)] + [drawn(12) + "=="]


@pytest.mark.parametrize("gap", ["\n", "\r\n", "\n    ", "\\n", "\\\\n", '\\n"\n    "', "\\n' +\n '"])
@pytest.mark.parametrize("header", ["", "Proc-Type: 4,ENCRYPTED{gap}DEK-Info: AES-128-CBC,0A1B{gap}{gap}"])
def test_of_a_private_key_its_lines_are_replaced_and_no_more(gap, header):
    """As a file, inside JSON, and in the source of a program; with its end, and cut before it."""
    begin = f"-----BEGIN RSA PRIVATE KEY-----{gap}{header.replace('{gap}', gap)}"
    whole = begin + gap.join([*KEY_LINES, "-----END RSA PRIVATE KEY-----"])
    cut = begin + gap.join(KEY_LINES[:3])
    for key in (whole, cut):
        assert Redactor().clean_text(f"cat id\n{key}\n$ ls -la; make test") == f"cat id\n{MARK}\n$ ls -la; make test"


@pytest.mark.parametrize(
    "text",
    [
        "grep -rl -- '-----BEGIN RSA PRIVATE KEY-----' . | wc -l && python solve.py",
        'if "-----BEGIN PRIVATE KEY-----" in text:\n    raise SystemExit("a key is in the repository")\n',
        '<div class="sk-toggleable__label-arrow sk-estimator-doc-link-x">',
        "git clone https://example.com/a/xai-for-time-series-classification",
        "restore-keys: cache-key-d41d8cd98f00b204e9800998ecf8427e",
        "def pk_test_connection(): ...",
        "the bearer responsibilities-of-office",
        "curl -H 'Authorization: Bearer YOUR_API_KEY_GOES_HERE' -d sk-your-api-key-goes-here-now",
        "http://localhost:3000?to=bob@example.com",
        "docker://alpine:3.19@sha256:0123",
        "xoxo-and-kisses-from-all-of-us",
    ],
)
def test_what_an_agent_does_is_recorded_as_it_did_it(text):
    """Words that begin or look like a credential and are none: no action is changed for them."""
    assert Redactor().clean_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"Authorization": "Basic dXNlcjpwYXNzd29yZDEyMw=="}',
        "{'Authorization': 'Basic dXNlcjpwYXNzd29yZDEyMw=='}",
        '{"a": "{\\"authorization\\": \\"Basic dXNlcjpwYXNzd29yZDEyMw==\\"}"}',
        "authorization:Basic dXNlcjpwYXNzd29yZDEyMw==",
    ],
)
def test_basic_authorization_is_found_in_any_header(text):
    """As curl writes it, and as JSON and Python do."""
    assert Redactor().hits(text.encode())
    assert "dXNl" not in Redactor().clean_text(text)


def test_credentials_in_bytes_that_are_no_utf8_are_overwritten():
    """One letter of another encoding hides nothing; every byte keeps its place."""
    for kind in ("github", "openai", "aws", "private key"):
        content = b"caf\xe9 " + PLANTED[kind].encode() + b" \xff\x00end"
        cleaned = Redactor().clean_bytes(content)
        assert secret_part(PLANTED[kind]).encode() not in cleaned
        assert (len(cleaned), cleaned[:5], cleaned[-6:]) == (len(content), content[:5], content[-6:])


def test_no_text_takes_longer_than_its_length():
    """An agent chooses what is searched: each begun token is looked at so far, not to the end of the text."""
    searched = re.compile(SHAPES["JSON web token"])

    def seconds(count):
        began = time.process_time()
        assert searched.search("-eyJ" * count) is None
        return time.process_time() - began

    assert seconds(20_000) < 25 * seconds(2_000)  # 100 times as long if it were quadratic


FRAGMENTS = [
    *PLANTED.values(), *URLS, CONFIGURED, CONFIGURED[:8], "漢", "é", "\udc00", " ", "\n", "x", "-", "sk-", "ask-",
    "eyJ", "://", "a:b@", "Authorization: ", "authorization", '\\": \\"', "Basic ", "AccountKey=", drawn(30),
    "-----BEGIN PRIVATE KEY-----", "Comment: ", "Bearer ", "glpat-", "AKIA", ".atlasv1.", "xapp-1-", "SG.",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join), st.sampled_from(["", "Authorization", "://a:bbbb"])
)
@example("Authorization: Basic dXNlcjpwYXNz", "Authorization")  # the end of one secret is what the next one needs
@example(f"漢字{URLS[0]}", "")
def test_only_where_one_may_begin_is_as_everywhere(text, known):
    """What is replaced is exactly what the patterns replace when they are tried at each character."""
    redactor = Redactor([CONFIGURED, known])
    assert redactor.clean_text(text) == redactor._text.sub(MARK, text)


def test_begun_keys_are_looked_at_once():
    """A text that begins a key again and again, and never has one, took a minute for 200 KB."""
    text = "-----BEGIN PRIVATE KEY-----\nComment: " * 5_000

    def tried(redactor):
        count = 0

        class Counting:
            def search(self, *where):
                nonlocal count
                count += 1
                return redactor._scanner.search(*where)

        counted = Redactor()
        counted.__dict__["_scanner"] = Counting()
        assert counted.clean_text(text) == text
        return count

    assert tried(Redactor()) == 1


def everything(root):
    """Every byte of a store: files as they are, and segments unpacked."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield path.read_bytes()
            if path.suffix == ".parquet":
                yield json.dumps(pq.ParquetFile(path).read().to_pylist(), default=str, ensure_ascii=False).encode()


@pytest.mark.parametrize("is_sealed", [False, True], ids=["journal", "segment"])
async def test_no_file_of_a_store_holds_a_secret(tmp_path, is_sealed):
    """Journals, segments, artifacts and exports, after every kind of secret went through an event and an artifact."""
    redactor = Redactor([CONFIGURED])
    planted = [*PLANTED.values(), *URLS, CONFIGURED]
    store = create_store(tmp_path / "store")
    image = b"\x89PNG\xff\x00" + zlib.compress(b"x") + CONFIGURED.encode() + b"\xff"
    async with StoreRecorder(store, "one", redactor=redactor, start_sealing=InProcess) as recorder:
        stream = recorder.stream("s", trial_id="t", attempt=1)
        for index, secret in enumerate(planted):
            found = {"action_index": index, "is_error": False, "duration_ms": 1.0}
            await stream.append(ActionFinished(result=f"out: {secret}\n", **found))
            sha256, size = recorder.keep(f"key = '{secret}'\n".encode())
            artifact = ArtifactStored(sha256=sha256, media_type="text/plain", size_bytes=size, role="patch", name="a")
            await stream.append(artifact)
            assert len(load_blob(store, sha256)) == size
        sha256, size = recorder.keep(image)
        assert (len(load_blob(store, sha256)), size) == (len(image), len(image))
        await stream.append(failed())
        if not is_sealed:
            found = b"".join(everything(store.root))
    if is_sealed:
        assert main(["log", "export", str(store.root), "-o", str(store.root / "out.jsonl")]) == 0
        assert main(["log", "verify", str(store.root)]) == 0
        found = b"".join(everything(store.root))
    assert found.count(MARK.encode()) >= len(planted)
    unpacked = found + b"".join(base64.b64decode(each) for each in re.findall(rb'"base64":"([A-Za-z0-9+/=]+)"', found))
    left = [
        secret for secret in (*map(secret_part, PLANTED.values()), PASSWORD, CONFIGURED) if secret.encode() in unpacked
    ]
    assert left == []


def test_ordinary_text_stays():
    """Not one place of this project's code and documents is taken for a secret, nor a digest, an id or a template."""
    redactor = Redactor()
    folders = ("lhaw_record", "recorder", "runners", "analytics", "generators", "docs", "sql", "data")
    texts = {
        path: path.read_text(encoding="utf-8")
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".sql", ".toml"}
    }
    assert len(texts) > 500
    found = [path for path, text in texts.items() if redactor.hits(text.encode()) and redactor.clean_text(text) != text]
    assert found == []
    for text in (
        drawn(64, HEX), f"{drawn(32, HEX)}-1", "task-of-somebody-with-a-long-name", "http://127.0.0.1:8000/t/key/v1",
        "git@github.com:a/b.git", "https://$USER:$PASSWORD@host", "https://{user}:{password}@host",
        "my_hf_model_name_v2", "test_that_something_long_is_so", "basic characteristics", io.StringIO.__doc__,
    ):  # fmt: skip
        assert redactor.clean_text(text) == text


def test_every_shape_is_one_that_python_knows():
    """The patterns compile alone, and none matches an empty text."""
    assert len(SHAPES) > 40
    assert all(re.compile(shape).search("") is None for shape in SHAPES.values())


@pytest.mark.thorough
@pytest.mark.parametrize("kind", SHAPES)
def test_the_quick_search_finds_whatever_a_shape_allows(kind):
    """Of texts made from the shape itself, none is replaced that the quick search would have passed over."""
    redactor = Redactor()

    @settings(max_examples=60)
    @given(st.from_regex(SHAPES[kind]), st.text(max_size=20), st.text(max_size=20))
    @example("-----BEGINPRIVATE KEY-----\x0b0000000000000000", "", "")  # a vertical tab
    def holds(secret, before, after):
        text = before + secret + after
        assert redactor.clean_text(text) == text or redactor.hits(text.encode())

    holds()
