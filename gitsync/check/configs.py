"""All config files of a tree: which they are, and each one read once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gitsync.check import toml
from gitsync.check.benchmark_config import check_benchmark
from gitsync.check.boundary import attempt
from gitsync.check.cache import Memo
from gitsync.check.config import Config
from gitsync.check.config_checker import Checker
from gitsync.check.config_values import check_evaluation, check_training
from gitsync.check.files import Files, Holding
from gitsync.check.found import finding, shown
from gitsync.check.links import Links
from gitsync.check.models import check_model
from gitsync.model import Finding
from gitsync.tree import Entry, Kind, TooLarge, Tree

_BY_KIND = {
    "eval": check_evaluation,
    "training": check_training,
    "benchmark": check_benchmark,
}
KINDS = tuple(_BY_KIND)
# What checks across files point into; other places are not kept.
_ASKED_LATER = ("experiment", "evaluation", "training", "secrets")
# Parsed values take some 30 times the room of the text.
_MOST_BYTES = 16 * 1024 * 1024


def kind_of(path: str) -> str | None:
    """The kind of config that a command takes this path for; None if none does."""
    parts = path.split("/")
    if len(parts) < 3 or parts[0] != "configs" or not path.endswith(".toml"):
        return None
    if parts[-1] == ".toml":  # a name without a suffix
        return None
    return parts[1] if parts[1] in KINDS else None


def read_configs(files: Files, holding: Holding, links: Links) -> tuple[Config, ...]:
    """Every config, also behind links that stay in the repository, by path."""
    found: list[Config] = []
    for kind in KINDS:
        path = f"configs/{kind}"
        folder = links.follow(path)
        if folder.entry is not None and folder.entry.kind is Kind.FOLDER:
            found.extend(_folder(files, folder.entry, folder.path, path))
    for path in holding.links:
        linked = kind_of(path)
        if linked:
            target = links.follow(path)
            if target.entry is not None and target.is_file:
                found.append(_read(files.tree, files.memo, path, target.entry, target.path, linked))
    return tuple(sorted(found, key=lambda c: c.path.encode("utf-8", "surrogateescape")))


def _folder(files: Files, folder: Entry, source: str, path: str) -> tuple[Config, ...]:
    """The configs of one folder, remembered; file by file if one of them makes us fail."""

    def together() -> tuple[Config, ...]:
        return files.memo.get(
            "configs", folder.oid, path, lambda: _below(files, folder, source, path), path
        )

    def apart(_: Finding) -> tuple[Config, ...]:
        return _below(files, folder, source, path, careful=True)

    return attempt(path, together, apart)


def _below(
    files: Files, folder: Entry, source: str, path: str, *, careful: bool = False
) -> tuple[Config, ...]:
    """The configs among the files of `source`, which is the folder `path` of `configs/`."""
    found: list[Config] = []
    kind = path.rpartition("/")[2]
    total = 0
    for file in files.below(source, folder.oid).files:
        where = path + file.path[len(source) :]
        if not kind_of(where):
            continue
        if files.content(file).is_lfs_pointer:
            found.append(Config(where, kind))
            continue
        total += min(file.size, toml.MAX_BYTES)
        if total > _MOST_BYTES:
            error = toml.TomlError(
                f"The configs of this folder have more than {_MOST_BYTES} bytes together.",
                limit=True,
            )
            found.append(Config(where, kind, None, (toml_finding(where, error),)))
            continue
        read = partial(_read, files.tree, files.memo, where, file.entry, file.path, kind)
        found.append(attempt(where, read, partial(_failed, where, kind)) if careful else read())
    return tuple(found)


def _failed(path: str, kind: str, found: Finding) -> Config:
    return Config(path, kind, None, (found,))


def _read(tree: Tree, memo: Memo, path: str, entry: Entry, source: str, kind: str) -> Config:
    def load() -> Config:
        try:
            data = tree.read(source, limit=toml.MAX_BYTES)
        except TooLarge as e:
            error = toml.TomlError(f"It has {e.details['size']} bytes.", limit=True)
            return Config(path, kind, None, (toml_finding(path, error),))
        return read_config(path, kind, data)

    return memo.get("config", entry.oid, path, load, path)


def read_config(path: str, kind: str, data: bytes) -> Config:
    """Parse and judge one file of `configs/<kind>/`."""
    try:
        document = toml.parse(data)
    except toml.TomlError as e:
        return Config(path, kind, None, (toml_finding(path, e),))
    checker = Checker(path, kind, document)
    checker.check()
    {"eval": check_evaluation, "training": check_training, "benchmark": check_benchmark}[kind](
        checker
    )
    document.keep_only(_ASKED_LATER, depth=3)
    config = Config.of(path, kind, document, checker.found)
    if kind == "benchmark":
        return config
    return replace(config, found=(*config.found, *check_model(config)))


def toml_finding(path: str, error: toml.TomlError) -> Finding:
    """The one finding of a file that is no TOML, or over a limit."""
    if error.limit:
        return finding(
            "toml-limit",
            path,
            f"{error.message} Such a file is not read; make it smaller and flatter.",
            at=error.place,
        )
    return finding(
        "toml-syntax",
        path,
        f"This is no valid TOML: {error.message} Correct the line; `osmosis` cannot load the file.",
        at=error.place,
    )


def unreachable(holding: Holding) -> list[Finding]:
    """Files that look like configs and that no command accepts."""
    return [
        finding(
            "config-not-reachable",
            path,
            f"No command accepts `{shown(path)}`: configs are `*.toml` below `configs/eval`, "
            "`configs/training` or `configs/benchmark`. Move or rename it.",
        )
        for path in (*(f.path for f in holding.files), *holding.links)
        if path.startswith("configs/") and path.lower().endswith(".toml") and not kind_of(path)
    ]
