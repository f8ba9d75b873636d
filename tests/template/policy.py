"""A stand-in for a model: the OpenAI chat protocol, streamed, multiplying with the tool it gets.

It computes one product per turn from what the tool really answered, so a rollout whose tool is
broken, is not called, or whose results are lost cannot end in the right number.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FACTOR = re.compile(r"^(\w+) = (-?[0-9]+(?:\.[0-9]+)?)$", re.MULTILINE)


def text_of(message: dict) -> str:
    """A message's text, whether content is a string or a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


class Policy:
    """What the model does, and what it saw."""

    def __init__(self, *, wrong: bool = False, loops_on: str = "\0") -> None:
        self.wrong = wrong
        self.loops_on = loops_on  # text of a question: then it calls the tool for ever
        self.requests: list[dict] = []
        self.tool_results: dict[str, int] = {}  # question -> tool results in its last request
        self.lock = threading.Lock()

    def answer(self, body: dict) -> dict:
        """The assistant message for one request."""
        messages = body["messages"]
        question = next(m for m in messages if m["role"] == "user")
        factors = [Decimal(value) for _, value in FACTOR.findall(text_of(question))]
        results = [m for m in messages if m["role"] == "tool"]
        with self.lock:
            self.requests.append(body)
            self.tool_results[text_of(question)] = len(results)
        tools = body.get("tools") or []
        if tools and (self.loops_on in text_of(question) or len(results) < len(factors) - 1):
            name = tools[0]["function"]["name"]
            keys = list(tools[0]["function"]["parameters"]["properties"])
            left = float(text_of(results[-1])) if results else float(factors[0])
            pair = (left, float(factors[(len(results) + 1) % len(factors)]))
            call = {
                "id": f"call_{len(results)}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": json.dumps(dict(zip(keys, pair, strict=True))),
                },
            }
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        if results:
            product = float(text_of(results[-1]))
        else:
            exact = Decimal(1)
            for factor in factors:
                exact *= factor
            product = float(exact)
        if self.wrong:
            product += 1
        return {
            "role": "assistant",
            "content": f"As asked, after #### 0.5 as a format:\n#### {product:.4f}",
        }


def chunks(message: dict, model: str) -> Iterator[dict]:
    """The message as a stream: pieces of text, or a call whose arguments arrive in two halves."""

    def chunk(delta: dict, finish: str | None = None) -> dict:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": model,
            "choices": [choice],
        }

    yield chunk({"role": "assistant", "content": ""})
    if message.get("tool_calls"):
        call = message["tool_calls"][0]
        arguments = call["function"]["arguments"]
        middle = len(arguments) // 2
        head = {"index": 0, "id": call["id"], "type": "function"}
        yield chunk(
            {
                "tool_calls": [
                    head | {"function": {"name": call["function"]["name"], "arguments": ""}}
                ]
            }
        )
        for piece in (arguments[:middle], arguments[middle:]):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")
        return
    text = message["content"]
    for start in range(0, len(text), 7):
        yield chunk({"content": text[start : start + 7]})
    yield chunk({}, "stop")


@contextmanager
def serve(policy: Policy) -> Iterator[str]:
    """Serve the policy on a free port of 127.0.0.1; yields the API base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self.path.endswith("/chat/completions"):
                self.send_error(404)
                return
            message = policy.answer(body)
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            if body.get("stream"):
                lines = [*chunks(message, body["model"])]
                lines.append(lines[-1] | {"choices": [], "usage": usage})
                data = (
                    "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "data: [DONE]\n\n"
                )
                self.reply("text/event-stream", data.encode())
            else:
                reason = "tool_calls" if message.get("tool_calls") else "stop"
                choice = {"index": 0, "message": message, "finish_reason": reason}
                whole = {
                    "id": "chatcmpl-1",
                    "object": "chat.completion",
                    "created": 1,
                    "model": body["model"],
                    "choices": [choice],
                    "usage": usage,
                }
                self.reply("application/json", json.dumps(whole).encode())

        def reply(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
