"""A real browser without a window, spoken to through a pipe in its DevTools protocol: no port, no driver."""

import base64
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.needs import browser_program

PATIENCE_SECONDS = 120.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # a container's root has no other way
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Unready(AssertionError):
    """The page could not say: it is just being replaced by another, or does not have yet what was named."""


@contextmanager
def browser() -> Iterator["Browser"]:
    """Start the browser with an empty profile; it is gone afterwards."""
    found = browser_program()
    assert found is not None
    to_child, ours = os.pipe()
    theirs, from_child = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The browser reads from 3 and writes to 4; the shell moves our pipes there.
        script = f'exec "$@" 3<&{to_child} 4>&{from_child}'
        process = subprocess.Popen(
            ["bash", "-c", script, "browser", found, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_child, from_child),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        try:
            yield Browser(theirs, ours)
        finally:
            process.kill()
            process.wait()
            os.close(theirs)
            os.close(ours)


class Browser:
    """A running browser. ``messages`` are all its events so far, in order."""

    def __init__(self, read_end: int, write_end: int) -> None:
        self._read, self._write = read_end, write_end
        self._left = b""
        self._number = 0
        self.messages: list[dict] = []

    @contextmanager
    def page(self) -> Iterator["Page"]:
        """Open an empty page; it is closed afterwards."""
        target = self.send(None, "Target.createTarget", url="about:blank")["targetId"]
        session = self.send(None, "Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        try:
            yield Page(self, session)
        finally:
            self.send(None, "Target.closeTarget", targetId=target)

    def send(self, session: str | None, method: str, **parameters: object) -> dict:
        """Give a command to a page, or to the browser itself, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            received = self._receive()
            if received.get("id") == self._number:
                if "error" in received:
                    raise Unready(received)
                return received["result"]
            self.messages.append(received)

    def _receive(self) -> dict:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._read], [], [], PATIENCE_SECONDS)
            assert ready, "the browser says nothing"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser is gone"
            self._left += data
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)


class Page:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: object) -> dict:
        """Give a command and return its result."""
        return self._browser.send(self._session, method, **parameters)

    def open(self, address: str) -> None:
        """Open a page and wait until it says that it is ready."""
        self.send("Page.navigate", url=address)
        self.wait(
            "document.documentElement?.dataset.ready === 'true' || document.getElementById('problem')?.hidden === false"
        )

    def wait(self, expression: str) -> None:
        """Wait until an expression of JavaScript is true, on whichever page is then shown."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self.value(f"Boolean({expression})"):
                    return
            except Unready:
                if time.monotonic() >= deadline:
                    raise
            assert time.monotonic() < deadline, f"waited in vain for {expression}"
            time.sleep(0.02)

    def value(self, expression: str) -> object:
        """Return the value of an expression of JavaScript; promises are awaited."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Unready(answer["exceptionDetails"])
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys one after another, by their names (``Enter``, ``ArrowDown``, ``a``)."""
        for key in keys:
            text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else None)
            codes = {"Enter": 13, "Escape": 27, "Tab": 9, "End": 35, "Home": 36, "PageDown": 34, "PageUp": 33}
            arrows = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
            common = {"key": key, "code": key, "windowsVirtualKeyCode": {**codes, **arrows}.get(key, 0)}
            self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def scheme(self, name: str) -> None:
        """Prefer the colour scheme light or dark."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def size(self, width: int, height: int) -> None:
        """Set the size of the page's view, pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path: Path) -> None:
        """Write what is in view as PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for."""
        return [message["params"]["request"]["url"] for message in self._messages("Network.requestWillBeSent")]

    def complaints(self) -> list[str]:
        """Return errors and warnings of the console, of the browser's log and of scripts."""
        kinds = ("Runtime.consoleAPICalled", "Log.entryAdded", "Runtime.exceptionThrown")
        return [json.dumps(message["params"]) for message in self._messages(*kinds)]

    def _messages(self, *kinds: str) -> list[dict]:
        own = [message for message in self._browser.messages if message.get("sessionId") == self._session]
        return [message for message in own if message.get("method") in kinds]
