"""The world outside, as workflows see it: a few files over HTTP, and names over DNS.

`python -m collector.campaign.origin` serves both at 10.77.0.1, an address that whoever runs
workflows gives to the loopback interface; Origin does that in a network of its own.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import socketserver
import struct
import subprocess
import sys
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

ADDRESS = "10.77.0.1"
PORT = 8077
DNS_PORT = 8053
ROWS = 200
NAMES = {"origin.example.": ADDRESS, "mirror.example.": "10.77.0.2"}


def data_csv() -> bytes:
    lines = [f"{number},{'abcd'[number % 4]},{number * 37 % 101}" for number in range(ROWS)]
    return ("id,group,value\n" + "\n".join(lines) + "\n").encode()


def model_json() -> bytes:
    weights = [round((index * 7 % 11 - 5) / 10, 1) for index in range(16)]
    return json.dumps({"name": "linear-16", "bias": 0.5, "weights": weights}).encode()


def page_html() -> bytes:
    items = "".join(f'<li><a href="/item/{n}">Item {n}</a></li>' for n in range(1, 13))
    return f"<!doctype html><title>Catalogue</title><h1>Items</h1><ul>{items}</ul>".encode()


def package_tgz() -> bytes:
    """As npm and pip fetch them: a folder, a manifest and a module in each of two languages."""
    files = {
        "package/package.json": b'{"name": "leftpad", "version": "1.2.0", "main": "index.js"}',
        "package/index.js": b"module.exports = (t, n, c = ' ') => String(t).padStart(n, c);\n",
        "package/leftpad.py": b"def leftpad(text, width, fill=' '):\n"
        b"    return str(text).rjust(width, fill)\n",
    }
    packed = io.BytesIO()
    # Without times, so that each download is the same to the byte.
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


FILES = {
    "/data.csv": ("text/csv", data_csv),
    "/model.json": ("application/json", model_json),
    "/page.html": ("text/html; charset=utf-8", page_html),
    "/package.tgz": ("application/gzip", package_tgz),
}


class Files(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, make = FILES.get(self.path, ("text/plain", None))
        body = make() if make else b"no such file\n"
        self.send_response(200 if make else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


class Names(socketserver.BaseRequestHandler):
    """Answers A records; to all else that there is no such name."""

    def handle(self) -> None:
        query, connection = self.request
        labels, end = [], 12
        while query[end]:
            labels.append(query[end + 1 : end + 1 + query[end]].decode())
            end += 1 + query[end]
        question = query[12 : end + 5]
        address = NAMES.get(".".join(labels).lower() + ".")
        wanted = struct.unpack("!H", query[end + 1 : end + 3])[0]
        known = address is not None
        answer = b""
        if address is not None and wanted == 1:
            record = struct.pack("!HHHIH", 0xC00C, 1, 1, 60, 4)
            answer = record + bytes(int(part) for part in address.split("."))
        flags = 0x8180 if known else 0x8183
        header = query[:2] + struct.pack("!HHHHH", flags, 1, 1 if answer else 0, 0, 0)
        connection.sendto(header + question + answer, self.client_address)


def serve(address: str, port: int, dns_port: int) -> None:
    names = socketserver.ThreadingUDPServer((address, dns_port), Names)
    Thread(target=names.serve_forever, daemon=True).start()
    server = ThreadingHTTPServer((address, port), Files)
    print(f"serving http://{address}:{port}/", flush=True)
    server.serve_forever()


class Origin:
    """It, in a network of its own, which commands with the prefix share. Needs root."""

    def __enter__(self) -> Origin:
        steps = f'ip link set lo up && ip address add {ADDRESS}/32 dev lo && exec "$@"'
        server = [sys.executable, "-m", __spec__.name]
        self._process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", steps, "origin", *server], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it is there as soon as it says so
        self.prefix = ["nsenter", f"--net=/proc/{self._process.pid}/ns/net"]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m collector.campaign.origin")
    parser.add_argument("--address", default=ADDRESS)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--dns-port", type=int, default=DNS_PORT)
    options = parser.parse_args()
    serve(options.address, options.port, options.dns_port)


if __name__ == "__main__":
    main()
