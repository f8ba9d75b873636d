"""Run the benchmarks: `python -m benchmarks [--full] [--json] [NAME…]`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import benchmarks


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="modules to run; all without a name")
    parser.add_argument("--full", action="store_true", help="the full counts; minutes")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    import tests.conftest  # noqa: F401 - a clean environment for git

    found = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name != "__main__"]
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in found}
    known = [name for name, module in modules.items() if hasattr(module, "measure")]
    unknown = sorted(set(args.names) - set(known))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    rows = []
    for name in args.names or known:
        for result in modules[name].measure(quick=not args.full):
            rows.append({"module": name, **result.to_json()})
            if not args.json:
                print(_line(rows[-1]), flush=True)
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "full": args.full,
        "results": rows,
    }
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        print(f"written to {path}")
    return 0


def _line(row: dict[str, Any]) -> str:
    mark = {True: "met   ", False: "MISSED", None: "      "}[row["is_met"]]
    ratio = "" if row["ratio"] is None else f"  {row['ratio']:.2f} x {row['baseline']}"
    target = f"  (target {row['target']})" if row["target"] else ""
    return f"{mark} {row['name']}: {row['value']:.4g} {row['unit']}{ratio}{target}"


if __name__ == "__main__":
    raise SystemExit(main())
