"""A registry of images on loopback with one image, made up here: what an engine needs to pull it, or is refused by."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@contextmanager
def image_registry(*, refusal=None, layer_bytes=3_000_000):
    """Serve ``test/image:1`` and yield the registry's address; with a refusal, a status and a body, nothing else."""
    blobs, manifest = _image(layer_bytes)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if refusal is not None:
                self.answer(refusal[0], refusal[1].encode(), "application/json")
            elif self.path == "/v2/":
                self.answer(200, b"{}", "application/json")
            elif self.path.startswith("/v2/test/image/manifests/"):
                self.answer(200, manifest, _MANIFEST)
            elif self.path.removeprefix("/v2/test/image/blobs/") in blobs:
                self.answer(200, blobs[self.path.rpartition("/")[2]], "application/octet-stream")
            else:
                self.answer(
                    404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}', "application/json"
                )

        do_HEAD = do_GET  # noqa: N815  the library's name

        def answer(self, status, body, kind):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", _digest(body))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_):
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _image(layer_bytes):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("data")
        content = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(layer_bytes // 32))
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    layer = gzip.compress(buffer.getvalue(), 1)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(buffer.getvalue())]},
        }
    ).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "size": len(config),
            "digest": _digest(config),
        },
        "layers": [
            {
                "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "size": len(layer),
                "digest": _digest(layer),
            }
        ],
    }
    return {_digest(layer): layer, _digest(config): config}, json.dumps(manifest).encode()


def _digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
