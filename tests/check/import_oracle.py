"""What a real import exposes: a fork server that has the SDK loaded, a few milliseconds a case.

The server is a process of its own: the code of test cases never runs in the test's process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_SERVER = r"""
import importlib.abc, importlib.machinery, inspect, json, os, signal, sys, types, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from osmosis_ai.platform.cli.rollout_entrypoint import load_rollout_entrypoint
from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend
from osmosis_ai.rollout.server import create_rollout_server
import uvicorn, asyncio, dataclasses, enum, functools

def shown(cls):
    module = cls.__module__
    if module.startswith("_osmosis_rollout_"):
        module = module.partition(".")[2] or "__init__"
    return f"{module}:{cls.__qualname__}"

def facts(cls, method):
    out = {"name": shown(cls)}
    try:
        instance = cls(None)
        out["init"] = True
    except Exception as error:
        out["init"] = False
        instance = None
    function = inspect.getattr_static(cls, method, None)
    try:
        bound = getattr(instance if instance is not None else cls, method)
        out["async"] = inspect.iscoroutinefunction(bound)
        args = (object(),) if instance is not None else (object(), object())
        inspect.signature(bound).bind(*args)
        out["bind"] = True
    except (TypeError, ValueError, AttributeError):
        out.setdefault("async", False)
        out["bind"] = False
    return out

class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    # Packages that are not installed here: every name is a class that takes anything.

    def __init__(self, names):
        self.names = set(names)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        def find(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Anything if name[:1].isupper() else Anything()
        module.__getattr__ = find
        return module

    def exec_module(self, module):
        pass

class Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls()

class Anything(metaclass=Meta):
    def __init__(self, *args, **kwargs):
        pass
    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

def judge(folder, entrypoint):
    module = load_rollout_entrypoint(Path(folder), entrypoint)
    found = {"workflow": {}, "grader": {}}
    for value in list(vars(module).values()):
        if not isinstance(value, type):
            continue
        for role, base, method in (("workflow", AgentWorkflow, "run"), ("grader", Grader, "grade")):
            if issubclass(value, base) and value is not base and not inspect.isabstract(value):
                found[role].setdefault(id(value), facts(value, method))
    return {role: list(classes.values()) for role, classes in found.items()}

for line in sys.stdin:
    request = json.loads(line)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(request.get("seconds", 10))
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.environ.update(request.get("env", {}))
        uvicorn.run = lambda *args, **kwargs: None
        missing = [n for n in request.get("stubs", ()) if not importlib.util.find_spec(n)]
        sys.meta_path.append(Stubs(missing))
        try:
            answer = judge(request["folder"], request["entrypoint"])
        except BaseException as error:
            answer = {"error": type(error).__name__, "message": str(error)[:300]}
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    data = b""
    while chunk := os.read(read, 65536):
        data += chunk
    os.close(read)
    os.waitpid(child, 0)
    sys.stdout.write((data.decode() or '{"error": "killed"}') + "\n")
    sys.stdout.flush()
"""


class ImportOracle:
    """Ask with `ask`; close with `close` or a `with` block."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(
        self,
        folder: Path,
        entrypoint: str,
        *,
        env: dict[str, str] | None = None,
        stubs: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """`{"workflow": [...], "grader": [...]}`, or `{"error": type}` if the import fails.

        `stubs` are packages to stand in for where they are not installed.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        request: dict[str, Any] = {
            "folder": str(folder),
            "entrypoint": entrypoint,
            "env": env or {},
        }
        request["stubs"] = list(stubs)
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def __enter__(self) -> ImportOracle:
        return self

    def __exit__(self, *what: object) -> None:
        self.close()
