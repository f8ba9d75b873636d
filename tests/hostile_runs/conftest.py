"""The kit's repositories, built once, and a service beside which they are served."""

from __future__ import annotations

import pytest

from tests.hostile_runs import kit

# one or two of each kind for the everyday run; the slow one takes all
FEW = {
    "path-dotdot",
    "path-newline",
    "path-not-utf8",
    "path-duplicate-entry",
    "link-absolute",
    "link-self-folder",
    "gitlink-ext-url",
    "attr-rewrite",
    "modes",
    "secrets-committed",
    "toml-deep-array",
    "python-deep-parens",
    "tree-bomb",
    "ref-branch-named-head",
    "ref-tag-same-name",
    "head-detached",
    "default-renamed",
    "ref-to-blob",
    "commit-surrogates",
}


@pytest.fixture(scope="session")
def few_repos(tmp_path_factory):
    """Folder and manifest entries of the few."""
    out = tmp_path_factory.mktemp("few") / "repos"
    return out, kit.build(out, only=FEW)


@pytest.fixture(scope="session")
def all_repos(tmp_path_factory):
    """Folder and manifest entries of all that are not expensive."""
    out = tmp_path_factory.mktemp("all") / "repos"
    return out, kit.build(out)
