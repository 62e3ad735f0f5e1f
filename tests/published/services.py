"""Rocket.Chat, GitLab and Plane as small as can be: what the evaluators of tac ask, and what changes it.

Written from the published ``common.py`` and the REST APIs that it calls (developer.rocket.chat, docs.gitlab.com,
developers.plane.so). Runs in containers: each API listens at the company's port for it, and begins anew with its
container.
"""

import json
import threading
import urllib.parse
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USERS = ("theagentcompany", "Chen Xinyi", "Zhang Wei", "Sarah Johnson", "Liu Qiang")
PLANE = "/api/v1/workspaces/tac/projects"
users = [
    {"_id": f"user-{n}", "name": name, "nameInsensitive": name.lower(), "username": name.lower().replace(" ", "_")}
    for n, name in enumerate(USERS)
]
chats: dict = {user["_id"]: [] for user in users}  # newest first
moderators: list = []  # names of users
repositories = {1: {"id": 1, "path_with_namespace": "root/openhands", "name": "openhands"}}
issue = {"iid": 3797, "state": "opened"}
notes: list = []
boards = [{"id": "39ccbb74-8f1d-4259-8f75-df9ffbc9a962", "name": "Frontend Development"}]
tickets: list = [{"name": "Old news"}]


def rocketchat(method, path, sent):
    """Answer below /api/v1/."""
    name = path.removeprefix("/api/v1/")
    if name == "login":
        is_right = sent.get("username") == sent.get("password") == "theagentcompany"
        return (200, {"status": "success", "data": {"authToken": "t", "userId": "user-0"}}) if is_right else (401, {})
    if name == "users.list":
        return 200, {"users": users, "success": True}
    if name == "im.history":
        return 200, {"messages": chats[sent["roomId"]], "success": True}
    if name == "roles.getUsersInRole" and sent["role"] == "moderator":
        return 200, {"users": [user for user in users if user["username"] in moderators], "success": True}
    if name == "chat.postMessage":
        (to,) = [user["_id"] for user in users if "@" + user["username"] == sent["channel"]]
        sent_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        chats[to].insert(0, {"msg": sent["text"], "ts": sent_at})
        return 200, {"success": True}
    if name == "channels.addModerator":
        moderators.extend(user["username"] for user in users if user["_id"] == sent["userId"])
        return 200, {"success": True}
    return 404, {}


def gitlab(method, path, sent):
    """Answer below /api/v4/projects."""
    project, *of = path.removeprefix("/api/v4/projects").strip("/").split("/")
    if not project:
        return 200, list(repositories.values())
    name = urllib.parse.unquote(project)
    found = [n for n, each in repositories.items() if name in (str(n), each["path_with_namespace"])]
    if not found:
        return 404, {"message": "404 Project Not Found"}
    if not of and method == "DELETE":
        del repositories[found[0]]
        return 202, {"message": "202 Accepted"}
    if of == ["issues", "3797", "notes"]:
        if method == "POST":
            notes.append({"body": sent["body"]})
        return 200, notes
    if of == ["issues", "3797"]:
        if method == "PUT" and sent.get("state_event") == "close":
            issue["state"] = "closed"
        return 200, issue
    return (200, repositories[found[0]]) if not of else (404, {})


def plane(method, path, sent):
    """Answer below the projects of the workspace."""
    project, *of = path.removeprefix(PLANE).strip("/").split("/")
    if not project:
        return 200, {"results": boards}
    if project not in [board["id"] for board in boards]:
        return 404, {}
    if not of and method == "DELETE":
        boards.clear()
        return 204, {}
    if of == ["issues"]:
        if method == "POST":
            tickets.append({"name": sent["name"]})
        return 200, {"results": tickets}
    return 404, {}


KEYS = {
    3000: (rocketchat, "X-Auth-Token", "t"),
    8929: (gitlab, "PRIVATE-TOKEN", "root-token"),
    8091: (plane, "x-api-key", "plane_api_83f868352c6f490aba59b869ffdae1cf"),
}


class Api(BaseHTTPRequestHandler):
    """Answers at the port of its server."""

    def do_GET(self):
        """Answer with the parameters of the address or of the body; the API's key is needed but to log in."""
        api, header, key = KEYS[self.server.server_port]
        address = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        is_json = "json" in self.headers.get("Content-Type", "") and body
        sent = json.loads(body) if is_json else dict(urllib.parse.parse_qsl(body or address.query))
        if address.path == "/health":
            status, content = 200, {}
        elif self.headers.get(header) != key and not address.path.endswith("/login"):
            status, content = 401, {}
        else:
            status, content = api(self.command, address.path, sent)
        reply = json.dumps(content).encode() if status != 204 else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815


if __name__ == "__main__":
    for port in KEYS:
        threading.Thread(target=ThreadingHTTPServer(("", port), Api).serve_forever).start()
