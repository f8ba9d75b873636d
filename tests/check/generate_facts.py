"""Write `gitsync/check/python/facts.json` from an environment that has the SDK with all extras.

    python tests/check/generate_facts.py PYTHON_WITH_ALL_EXTRAS PYTHON_WITH_SERVER_EXTRA

The checker must know what the SDK and the standard library define without importing them. Every
fact is read from the real modules, each in a fresh interpreter, so nothing loaded earlier leaks in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

OUT = Path(__file__).parents[2] / "gitsync" / "check" / "python" / "facts.json"

SHARED = r"""
import contextlib, importlib, io, json, sys, types, warnings
warnings.simplefilter("ignore")

def kind(value):
    if isinstance(value, types.ModuleType):
        return "m:" + value.__name__
    if isinstance(value, type):
        return f"c:{value.__module__}.{value.__qualname__}"
    if callable(value):
        home = getattr(value, "__module__", None)
        name = getattr(value, "__qualname__", None)
        if isinstance(home, str) and isinstance(name, str) and "<" not in name:
            return f"f:{home}.{name}"
        return "f:"
    return "v:"

def class_facts(cls):
    out = {"mro": [f"{c.__module__}.{c.__qualname__}" for c in cls.__mro__[1:]]}
    meta = type(cls)
    if meta is not type:
        out["meta"] = [f"{c.__module__}.{c.__qualname__}" for c in meta.__mro__ if c is not object]
    names = sorted(getattr(cls, "__abstractmethods__", ()) or ())
    if names:
        out["abstract"] = names
    return out

def look(name):
    before = set(sys.modules)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        module = importlib.import_module(name)
    loaded = set(sys.modules) - before
    names = {}
    for attr in sorted(set(dir(module)) | set(module.__dict__)):
        try:
            names[attr] = kind(getattr(module, attr))
        except Exception:
            pass
    classes = {}
    for value in list(module.__dict__.values()):
        if isinstance(value, type):
            classes[f"{value.__module__}.{value.__qualname__}"] = class_facts(value)
    return {
        "package": hasattr(module, "__path__"),
        "all": list(getattr(module, "__all__", ())) or None,
        "plain": sorted(module.__dict__),
        "names": names,
        "classes": classes,
        "loaded": sorted(loaded),
    }
"""


def run(python: str, code: str, *args: str) -> object:
    done = subprocess.run(
        [python, "-I", "-c", SHARED + code, *args], capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:200]}
    return json.loads(done.stdout)


ONE = "print(json.dumps(look(sys.argv[1])))"
LIST_SDK = r"""
import osmosis_ai, pkgutil
print(json.dumps(["osmosis_ai"] + [m.name for m in pkgutil.walk_packages(
    osmosis_ai.__path__, "osmosis_ai.", onerror=lambda n: None)]))
"""
LIST_STDLIB = "print(json.dumps(sorted(sys.stdlib_module_names)))"
SUBMODULES = r"""
import pkgutil
package = importlib.import_module(sys.argv[1])
print(json.dumps([m.name for m in pkgutil.iter_modules(package.__path__)]))
"""
LOADED = r"""
from osmosis_ai.platform.cli.rollout_entrypoint import load_rollout_entrypoint
import osmosis_ai.rollout
print(json.dumps(sorted(sys.modules)))
"""
LOADED_CLI = r"""
import osmosis_ai.cli.main, osmosis_ai.platform.cli.workspace_directory_contract
print(json.dumps(sorted(sys.modules)))
"""
BUILTINS = r"""
import builtins
print(json.dumps({
    "names": {n: kind(v) for n, v in vars(builtins).items()},
    "classes": {
        f"builtins.{n}": class_facts(v) for n, v in vars(builtins).items() if isinstance(v, type)
    },
    "compiled": sorted(sys.builtin_module_names),
}))
"""
REQUIRES = r"""
import importlib.metadata as metadata
print(json.dumps([metadata.version("osmosis-ai"), metadata.requires("osmosis-ai")]))
"""
SIGNATURES = r"""
import importlib, inspect
out = {}
for ref in sys.argv[1:]:
    module, _, name = ref.partition(":")
    value = getattr(importlib.import_module(module), name)
    out[f"{value.__module__}.{value.__qualname__}"] = list(inspect.signature(value).parameters)
print(json.dumps(out))
"""
NATIVE = r"""
from osmosis_ai.rollout.backend.harbor.native_agents import NATIVE_AGENTS
print(json.dumps(sorted(NATIVE_AGENTS)))
"""
SKIP_STDLIB = {
    "antigravity",
    "this",
    "idlelib",
    "turtledemo",
    "lib2to3",
    "test",
    "ensurepip",
    "__main__",
}
WITH_SUBMODULES = [
    "asyncio",
    "collections",
    "concurrent",
    "email",
    "html",
    "http",
    "importlib",
    "json",
    "logging",
    "multiprocessing",
    "os",
    "unittest",
    "urllib",
    "xml",
    "wsgiref",
    "zoneinfo",
    "sqlite3",
    "ctypes",
    "curses",
    "dbm",
    "distutils",
    "encodings",
    "re",
    "tomllib",
    "venv",
]
DEPENDENCIES = [
    "uvicorn",
    "pydantic",
    "fastapi",
    "httpx",
    "starlette",
    "litellm",
    "strands",
    "agents",
    "harbor",
    "openai",
    "anyio",
    "rich",
    "click",
    "typer",
    "yaml",
]


def compact(facts: dict, roots: tuple[str, ...]) -> dict:
    """A module's facts; `loads` are the top-level names (and SDK modules) its import brings in."""
    loads = sorted({m if m.startswith("osmosis_ai") else m.split(".")[0] for m in facts["loaded"]})
    out = {"names": facts["names"], "loads": loads}
    if facts["package"]:
        out["package"] = True
    if facts["all"] is not None:
        out["all"] = facts["all"]
    return out


def main() -> None:
    full, server = sys.argv[1:3]
    modules: dict[str, dict] = {}
    classes: dict[str, dict] = {}

    def add(name: str, python: str) -> bool:
        facts = run(python, ONE, name)
        if "failed" in facts:
            return False
        classes.update(facts["classes"])
        modules[name] = compact(facts, ())
        if name.startswith("osmosis_ai"):
            modules[name]["plain"] = facts["plain"]
        return True

    sdk_missing: dict[str, str] = {}
    for name in run(full, LIST_SDK):
        if name.endswith("__main__"):
            modules[name] = {"names": {}, "loads": []}
            continue
        if not add(name, full):
            print("cannot import", name)
            modules[name] = {"names": {}, "loads": [], "opaque": True}
        elif "failed" in run(server, ONE, name):
            sdk_missing[name] = "?"
    for name in run(full, LIST_STDLIB):
        if name in SKIP_STDLIB or name.startswith("_") and name != "__future__":
            continue
        if not add(name, server):
            print("stdlib module not on this platform:", name)
            continue
        if name in WITH_SUBMODULES and modules[name].get("package"):
            for sub in run(server, SUBMODULES, name):
                if not sub.startswith("_"):
                    add(f"{name}.{sub}", server)
    dependencies = {}
    for name in DEPENDENCIES:
        facts = run(full, ONE, name)
        if "failed" not in facts:
            dependencies[name] = compact(facts, ())["loads"]
    basics = run(server, BUILTINS)
    classes.update(basics["classes"])
    version, requires = run(full, REQUIRES)
    signatures = run(
        full,
        SIGNATURES,
        "osmosis_ai.rollout.backend.local:LocalBackend",
        "osmosis_ai.rollout.backend.harbor:HarborBackend",
        "osmosis_ai.rollout.server:create_rollout_server",
    )
    # Only what a rollout may reasonably reach keeps its names apart; private stdlib names go.
    for name, facts in modules.items():
        if not name.startswith("osmosis_ai"):
            keep = set(facts.get("all") or ())
            facts["names"] = {
                n: k for n, k in facts["names"].items() if not n.startswith("_") or n in keep
            }
    for facts in classes.values():
        if facts.get("mro") and facts["mro"][-1] == "builtins.object":
            facts["mro"] = facts["mro"][:-1]
    used = {k: v for k, v in classes.items() if any(v.values())}
    data = {
        "sdk_version": version,
        "requires": requires,
        "native": run(full, NATIVE),
        "signatures": signatures,
        "stdlib": [n for n in run(full, LIST_STDLIB)],
        "compiled": basics["compiled"],
        "builtins": basics["names"],
        "loaded": sorted(
            {m.split(".")[0] if not m.startswith("osmosis_ai") else m for m in run(server, LOADED)}
        ),
        "loaded_by_cli": sorted({m.split(".")[0] for m in run(server, LOADED_CLI)}),
        "needs_extra": sorted(sdk_missing),
        "dependencies": dependencies,
        "modules": modules,
        "classes": used,
    }
    OUT.write_text(json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n")
    print(OUT, OUT.stat().st_size)


if __name__ == "__main__":
    main()
