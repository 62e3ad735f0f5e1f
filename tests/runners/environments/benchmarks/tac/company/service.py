"""A file store as small as can be: PUT and GET below /files/, GET /status; with ``control`` the resets of a company.

Its pages for browsers are /login, and below /apps/files/?dir=FOLDER, once logged in, a link to FOLDER/front%20desk,
one that downloads the visitors, and a form that puts count.txt. GET /broken never succeeds, and GET /puts tells how
often something was put since the last reset. GET /eat makes a child that the memory limit kills, GET /restart ends
the service with an error. PORT is where it listens, NEEDS an address without which it ends, and FILLS one where it
puts something and ends. ``load URL FILE`` puts a file.
"""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FIRST = {"/files/front-desk/visitors.csv": b"name\nAda\nGrace\nKurt\n"}
files, puts = dict(FIRST), []


LOGIN = """<title>ownCloud</title><form method=post action=/login><input name=user aria-label=Username>
<input name=password type=password aria-label=Password><button>Log in</button></form>"""
FOLDER = """<title>Files - ownCloud</title><h1>{folder}</h1><a href="?dir={folder}/front%20desk">front desk</a>
<a href=/files/front-desk/visitors.csv download>visitors.csv</a><input type=file aria-label=Upload onchange="
fetch('/files/count.txt', {{method: 'PUT', body: this.files[0]}}).then(() => document.title = 'uploaded')">"""


class Store(BaseHTTPRequestHandler):
    """The store."""

    def do_GET(self):
        """Give a file, the list of a folder, or what is asked about the store."""
        page, _, folder = self.path.partition("?dir=")
        if self.path == "/status":
            self.answer(200, b"ok")
        elif self.path == "/login":
            self.answer(200, LOGIN.encode(), {"Content-Type": "text/html"})
        elif page == "/apps/files/" and "session=theagentcompany" in self.headers.get("Cookie", ""):
            self.answer(200, FOLDER.format(folder=folder).encode(), {"Content-Type": "text/html"})
        elif page == "/apps/files/":
            self.answer(303, headers={"Location": "/login"})
        elif self.path == "/eat":
            eater = [sys.executable, "-c", "x = [bytes(1 << 20) for _ in range(100000)]"]
            self.answer(200, str(subprocess.run(eater, check=False).returncode).encode())
        elif self.path == "/restart":
            os._exit(1)
        elif self.path == "/puts":
            self.answer(200, json.dumps(puts).encode())
        elif self.path in files:
            self.answer(200, files[self.path])
        elif self.path.endswith("/"):
            self.answer(200, "\n".join(sorted(name for name in files if name.startswith(self.path))).encode())
        else:
            self.answer(503 if self.path == "/broken" else 404)

    def do_POST(self):
        """Log a browser in."""
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        is_right = sent == b"user=theagentcompany&password=theagentcompany"
        cookie = {"Set-Cookie": "session=theagentcompany; Path=/"} if is_right else {}
        self.answer(303, headers={"Location": "/apps/files/?dir=/Documents" if is_right else "/login", **cookie})

    def do_PUT(self):
        """Keep a file."""
        files[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        puts.append(self.path)
        self.answer(201)

    def answer(self, status, content=b"", headers=()):
        """Send a whole answer."""
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Control(Store):
    """What puts the store back to how it began."""

    def do_POST(self):
        """Reset the store."""
        if self.path == "/api/reset-owncloud":
            files.clear()
            files.update(FIRST)
            puts.clear()
        self.answer(202)

    def do_GET(self):
        """Say that it is healthy."""
        self.answer(200 if self.path == "/api/healthcheck/owncloud" else 404)

    def do_HEAD(self):
        """Say the same; there is no content either way."""
        self.do_GET()


def put(url, content):
    """Put a file into a store."""
    urllib.request.urlopen(urllib.request.Request(url, content, method="PUT")).close()


if sys.argv[1:] == ["control"]:
    threading.Thread(target=ThreadingHTTPServer(("", 2999), Control).serve_forever, daemon=True).start()
if sys.argv[1:2] == ["load"]:
    put(sys.argv[2], Path(sys.argv[3]).read_bytes())
elif "FILLS" in os.environ:
    put(os.environ["FILLS"], b"filled")
else:
    if "NEEDS" in os.environ:
        urllib.request.urlopen(os.environ["NEEDS"]).close()
    ThreadingHTTPServer(("", int(os.environ.get("PORT", "8092"))), Store).serve_forever()
