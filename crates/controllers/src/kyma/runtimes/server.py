"""Runs a Function: calls main(event, context) of handler.py for every HTTP request.

    python3 server.py SOURCE_DIR WORK_DIR

The source is copied to WORK_DIR, its dependencies are installed there, and the handler is loaded from there.
"""

import asyncio
import concurrent.futures
import datetime
import importlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
import urllib.parse
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ.get("FUNC_PORT", "8080"))
HANDLER = os.environ.get("FUNC_HANDLER", "main")
MODULE = os.environ.get("MOD_NAME", "handler")
TIMEOUT = float(os.environ.get("FUNC_TIMEOUT", "180"))
BODY_LIMIT = int(float(os.environ.get("REQ_MB_LIMIT", "1")) * 1024 * 1024)
# where all pods share the host's network, each has an address of its own
HOST = os.environ.get("BALLAST_POD_IP", "")

CONTEXT = {
    "function-name": os.environ.get("FUNC_NAME"),
    "namespace": os.environ.get("SERVICE_NAMESPACE"),
    "runtime": os.environ.get("FUNC_RUNTIME"),
    "timeout": TIMEOUT,
    "memory-limit": os.environ.get("FUNC_MEMORY_LIMIT"),
}


class Refused(Exception):
    """A request that the handler does not get to see."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Request:
    def __init__(self, method, target, headers, raw):
        parts = urllib.parse.urlsplit(target)
        self.method = method
        self.url = target
        self.path = urllib.parse.unquote(parts.path)
        self.query_string = parts.query
        values = urllib.parse.parse_qs(parts.query, keep_blank_values=True)
        self.query = {key: found[0] if len(found) == 1 else found for key, found in values.items()}
        self.headers = headers
        self.raw_body = raw
        self.body = parse(headers.get("Content-Type", ""), raw)

    @property
    def json(self):
        return self.body if isinstance(self.body, (dict, list)) else json.loads(self.raw_body)

    def get_header(self, name, default=None):
        return self.headers.get(name, default)


class Response:
    """What the handler wants said besides the value it returns."""

    def __init__(self):
        self.status = 200
        self.headers = {}

    def set_header(self, name, value):
        self.headers[name] = value


class Event(dict):
    def setResponseHeader(self, name, value):
        self["extensions"]["response"].headers[name] = value

    def setResponseContentType(self, value):
        self.setResponseHeader("Content-Type", value)

    def setResponseStatus(self, status):
        self["extensions"]["response"].status = status

    def emitCloudEvent(self, type, source, data, optionalCloudEventAttributes=None):
        self.publishCloudEvent({
            "specversion": "1.0",
            "id": str(uuid.uuid4()),
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "datacontenttype": "text/plain" if isinstance(data, str) else "application/json",
            **(optionalCloudEventAttributes or {}),
            "type": type,
            "source": source,
            "data": data,
        })

    def publishCloudEvent(self, event):
        target = os.environ.get("PUBLISHER_PROXY_ADDRESS")
        if not target:
            raise RuntimeError("PUBLISHER_PROXY_ADDRESS is not set: where are events to go?")
        request = urllib.request.Request(
            target, json.dumps(event).encode(), {"Content-Type": "application/cloudevents+json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT):
            pass

    def buildResponseCloudEvent(self, id, type, data):
        self["extensions"]["response"].headers.update({
            "ce-specversion": "1.0",
            "ce-id": id,
            "ce-type": type,
            "ce-source": os.environ.get("FUNC_NAME", "function"),
        })
        return data


def parse(content_type, raw):
    kind = content_type.split(";")[0].strip().lower()
    if not raw:
        return None
    if kind.endswith("/json") or kind.endswith("+json"):
        try:
            return json.loads(raw)
        except ValueError as error:
            raise Refused(400, f"the body is not JSON: {error}") from error
    if kind == "application/x-www-form-urlencoded":
        return dict(urllib.parse.parse_qsl(raw.decode(), keep_blank_values=True))
    if kind == "" or kind.startswith("text/"):
        return raw.decode("utf-8", "replace")
    return raw


def make_event(request, response):
    event = Event(data=request.body, extensions={"request": request, "response": response})
    attributes = {}
    if request.headers.get("Content-Type", "").startswith("application/cloudevents+json"):
        attributes = dict(request.body) if isinstance(request.body, dict) else {}
        event["data"] = attributes.pop("data", None)
    elif "ce-specversion" in request.headers:
        attributes = {key[3:].lower(): value for key, value in request.headers.items() if key.lower().startswith("ce-")}
    for name, value in attributes.items():
        event["ce-" + name] = value
    if "ce-type" in event:
        event.setdefault("ce-eventtypeversion", str(event["ce-type"]).split(".")[-1])
    return event


def call(handler, event):
    result = handler(event, CONTEXT)
    if inspect.isawaitable(result):
        async def awaited():
            return await result
        result = asyncio.run(awaited())
    return result


def encode(result, response):
    """The bytes of an answer; its type goes into the headers unless the handler has set one."""
    if hasattr(result, "body") and hasattr(result, "status_code"):  # a response object of a web framework
        response.status = result.status_code
        response.headers.update(dict(getattr(result, "headers", {}) or {}))
        result = result.body
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], int):
        result, response.status = result
    has_type = any(name.lower() == "content-type" for name in response.headers)
    if result is None:
        return b""
    if isinstance(result, (bytes, bytearray)):
        kind, data = "application/octet-stream", bytes(result)
    elif isinstance(result, str):
        kind, data = "text/html; charset=utf-8", result.encode()
    else:
        kind, data = "application/json", json.dumps(result).encode()
    if not has_type:
        response.headers["Content-Type"] = kind
    return data


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # an answer in one piece, not held back for an acknowledgement
    disable_nagle_algorithm = True
    wbufsize = -1
    function = None
    workers = None

    def answer(self):
        if self.path.split("?")[0] == "/healthz":
            return self.reply(200, {"Content-Type": "text/plain"}, b"OK")
        response = Response()
        try:
            request = Request(self.command, self.path, self.headers, self.read_body())
            event = make_event(request, response)
            result = self.workers.submit(call, type(self).function, event).result(timeout=TIMEOUT)
            data = encode(result, response)
        except Refused as refused:
            return self.reply(refused.status, {"Content-Type": "text/plain"}, str(refused).encode())
        except concurrent.futures.TimeoutError:
            return self.reply(408, {"Content-Type": "text/plain"}, f"no answer within {TIMEOUT:g} s".encode())
        except Exception:
            traceback.print_exc()
            return self.reply(500, {"Content-Type": "text/plain"}, b"Internal server error")
        self.reply(response.status, response.headers, data)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self.read_chunks()
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_LIMIT:
            self.close_connection = True
            raise Refused(413, f"the body is larger than {BODY_LIMIT} bytes")
        return self.rfile.read(length)

    def read_chunks(self):
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
            if len(body) > BODY_LIMIT:
                self.close_connection = True
                raise Refused(413, f"the body is larger than {BODY_LIMIT} bytes")
        while self.rfile.readline().strip():
            pass
        return body

    def reply(self, status, headers, data):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() != "content-length":
                self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def install_dependencies(work):
    wanted = os.path.join(work, "requirements.txt")
    if not os.path.exists(wanted):
        return
    with open(wanted, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    if not any(line and not line.startswith("#") for line in lines):
        return
    print("installing what requirements.txt names", flush=True)
    target = os.path.join(work, "packages")
    pip = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run([*pip, "--target", target, "-r", wanted])
    if done.returncode != 0:
        sys.exit(f"pip install ended with {done.returncode}: see its output above")


def load(source, work):
    # what a ConfigMap volume holds are links to what holds the files
    for name in os.listdir(source):
        if name.startswith("..") or name == ".git":
            continue
        path = os.path.join(source, name)
        if os.path.isdir(path):
            shutil.copytree(path, os.path.join(work, name), dirs_exist_ok=True)
        else:
            shutil.copyfile(path, os.path.join(work, name))
    install_dependencies(work)
    sys.path[:0] = [work, os.path.join(work, "packages")]
    os.chdir(work)
    if not os.path.exists(os.path.join(work, MODULE + ".py")):
        sys.exit(f"there is no {MODULE}.py in the source")
    function = getattr(importlib.import_module(MODULE), HANDLER, None)
    if not callable(function):
        sys.exit(f"{MODULE}.py does not define a function {HANDLER}")
    return function


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: server.py SOURCE_DIR WORK_DIR")
    source, work = (os.path.abspath(directory) for directory in sys.argv[1:])
    Handler.function = staticmethod(load(source, work))
    Handler.workers = concurrent.futures.ThreadPoolExecutor(max_workers=int(os.environ.get("FUNC_WORKERS", "32")))
    try:
        server = Server((HOST, PORT), Handler)
    except OSError as error:
        sys.exit(f"cannot listen on {HOST or '*'}:{PORT}: {error}")
    # shutdown waits for the loop that this very thread runs
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening on {HOST or '*'}:{PORT}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
