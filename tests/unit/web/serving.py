"""An application really served, on a thread of its own."""

import contextlib
import json
import threading
import time
import urllib.error
import urllib.request

import uvicorn

from holdfast.web.app import make_app
from holdfast.web.serve import listen

TOKEN = "a token for tests"  # noqa: S105


@contextlib.contextmanager
def served(door):
    """Serve a door; gives a function that asks: method, path, token -> status code and document."""
    socket = listen("127.0.0.1", 0)
    config = uvicorn.Config(make_app(door, TOKEN), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    base = f"http://127.0.0.1:{socket.getsockname()[1]}"
    end = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < end, "the server did not start"
        threading.Event().wait(0.01)
    try:
        yield lambda method, path, token=TOKEN: ask(base + path, method, token)
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        socket.close()


def ask(url, method, token):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
