"""Local servers that a provider should not be: they redirect, never end, or answer byte by byte.

They note what reached them. All listen on 127.0.0.1 and stop with their block.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BLOCK = b"x" * 65536


class HostileServer:
    """A server in a thread: `with HostileServer(behave) as server: server.url`.

    Attributes:
        requests: (method, headers and body as one text) of each request.
        sent: Bytes of replies that were taken from it.
        open: Replies under way.
    """

    def __init__(self, behave):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.requests.append((self.command, f"{self.headers}\n{body.decode()}"))
                self.close_connection = True
                outer.open += 1
                try:
                    behave(self, outer)
                except OSError:
                    pass
                finally:
                    outer.open -= 1

            def do_GET(self):
                self.do_POST()

        self.requests, self.sent, self.open = [], 0, 0
        self.stop = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


def send(handler, server, data):
    handler.wfile.write(data)
    handler.wfile.flush()
    server.sent += len(data)


def answer(body, status=200, **headers):
    """Answer with this body."""

    def behave(handler, server):
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        send(handler, server, body)

    return behave


def redirect_to(url, status):
    def behave(handler, server):
        handler.send_response(status)
        handler.send_header("Location", url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return behave


def endless(start, unit=BLOCK, pause_s=0.0, most=2**29):
    """Answer with `start` and then `unit` again and again, until nobody takes it."""

    def behave(handler, server):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        send(handler, server, start)
        while not server.stop.wait(pause_s) and server.sent < most:
            send(handler, server, unit)

    return behave


def endless_head(pause_s=0.05):
    """Never come to the end of the head."""

    def behave(handler, server):
        send(handler, server, b"HTTP/1.1 200 OK\r\n")
        while not server.stop.wait(pause_s):
            send(handler, server, b"X-A: b\r\n")

    return behave
