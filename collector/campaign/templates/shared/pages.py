"""Serves pages on loopback: path to text, bytes, or a function of the request."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Request:
    def __init__(self, handler, body):
        self.path = urlsplit(handler.path).path
        self.query = {
            name: values[0] for name, values in parse_qs(urlsplit(handler.path).query).items()
        }
        self.form = {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
        self.body, self.headers, self.method = body, handler.headers, handler.command


class Answer:
    def __init__(self, body="", status=200, **headers):
        self.body, self.status = body, status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@contextlib.contextmanager
def serving(pages):
    """The base address of a server that lives as long as the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self, body)
            page = pages.get(request.path, Answer("nothing here", 404))
            answer = page(request) if callable(page) else page
            if not isinstance(answer, Answer):
                answer = Answer(answer)
            content = answer.body.encode() if isinstance(answer.body, str) else answer.body
            self.send_response(answer.status)
            for name, value in {
                "Content-Type": "text/html; charset=utf-8",
                **answer.headers,
            }.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
