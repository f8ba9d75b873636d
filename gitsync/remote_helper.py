"""`git-remote-gitsync`: Git's traffic of a remote handed to `git remote-http` with the real URL.

A checkout made by `gitsync clone` keeps `https://github.com/OWNER/NAME.git` as the URL of `origin`,
with `remote.origin.vcs = gitsync`, so Git runs this program instead of asking github.com; the real
URL is `remote.origin.gitsyncurl`. `gitsync::http://…` works as a URL too. This process becomes
Git's own helper, so it costs its start and nothing more; hence only light imports.
"""

from __future__ import annotations

import os
import sys

_KEYS = ("vcs", "gitsyncurl")


def _settings(remote: str) -> dict[str, str]:
    """What the configuration says of a remote, read by git itself."""
    reading, writing = os.pipe()
    pattern = r"^remote\..*\.(vcs|gitsyncurl)$"
    args = ["git", "config", "-z", "--get-regexp", pattern]
    pid = os.posix_spawnp(
        "git",
        args,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_CLOSE, reading)],
    )
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="surrogateescape") as out:
        items = out.read().split("\0")
    os.waitpid(pid, 0)
    found: dict[str, str] = {}
    for item in items:
        key, _, value = item.partition("\n")
        for name in _KEYS:
            if key == f"remote.{remote}.{name}":
                found[name] = value
    return found


def real_url(remote: str, url: str) -> str | None:
    """The URL to hand on; None if the remote is ours and does not say which."""
    found = _settings(remote)
    return found.get("gitsyncurl") or (None if "vcs" in found else url)


def main() -> int:
    """Run as Git runs it: `git-remote-gitsync REMOTE URL`; does not return when all is well."""
    if len(sys.argv) < 2:
        sys.stderr.write("git-remote-gitsync: Git runs this; see `gitsync clone`.\n")
        return 2
    remote = sys.argv[1]
    url = real_url(remote, sys.argv[2] if len(sys.argv) > 2 else "")
    if url is None:
        sys.stderr.write(
            f"gitsync: remote.{remote}.gitsyncurl is not set. Set it to the clone URL that the "
            "workspace page shows:\n"
            f"  git config remote.{remote}.gitsyncurl https://SERVER/git/OWNER/NAME.git\n"
        )
        return 128
    scheme = url.partition("://")[0].lower()
    if scheme not in ("http", "https"):
        sys.stderr.write("gitsync: the real URL of a gitsync remote starts with http or https.\n")
        return 128
    try:
        os.execvp("git", ["git", f"remote-{scheme}", remote, url])  # noqa: S606, S607 - becomes git
    except OSError as e:
        sys.stderr.write(f"gitsync: git cannot be run: {e.strerror}\n")
        return 128


if __name__ == "__main__":
    sys.exit(main())
