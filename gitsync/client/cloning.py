"""`gitsync clone`: a checkout where plain Git and every `osmosis` command work at once.

`osmosis` insists on an `origin` on github.com, so that is what `origin` is called; the traffic goes
to the real host through the remote helper, or, where the helper is not installed, through a second
remote. The token lies in `.git/gitsync-credential` and in an ignored `.env`, both mode 0600.
A clone that fails leaves nothing behind.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gitsync.client.dotenv import write_dotenv
from gitsync.client.failures import AnswerMalformed, CheckoutFailed, TargetExists
from gitsync.client.helper import find_helper
from gitsync.client.localgit import Checkout
from gitsync.client.place import Place
from gitsync.client.server import Json
from gitsync.errors import GitSyncError, InvalidInput
from gitsync.model import Identity

SECOND_REMOTE = "gitsync"
# set inside hooks and aliases: they would lead our git to somebody else's repository
_ELSEWHERE = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_CONFIG",
}
_SCP_LIKE = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:].*")
CREDENTIAL_FILE = "gitsync-credential"
# found through Git itself, so that a moved checkout and linked work trees keep working
_CREDENTIAL_HELPER = (
    f'!f() {{ test "$1" = get && cat "$(git rev-parse --git-common-dir)/{CREDENTIAL_FILE}"; }}; f'
)


@dataclass(frozen=True, slots=True)
class Cloned:
    """What was made. `via` is `helper`, `second-remote` or `origin`; `notes` are for the person."""

    path: Path
    workspace_id: str
    identity: str
    clone_url: str
    branch: str
    commit_sha: str | None
    via: str
    notes: tuple[str, ...]

    def to_json(self) -> Json:
        """The document of `gitsync clone --json`."""
        return {
            "schema_version": 1,
            "path": str(self.path),
            "workspace": self.workspace_id,
            "identity": self.identity,
            "clone_url": self.clone_url,
            "branch": self.branch,
            "commit_sha": self.commit_sha,
            "via": self.via,
            "notes": list(self.notes),
        }


def clone(
    ref: str,
    folder: Path | None,
    *,
    place: Place,
    branch: str | None = None,
    has_helper: bool = True,
    template: Callable[[Path], Path | None] = lambda _git_folder: None,
    shows_progress: bool = False,
    env: Mapping[str, str] | None = None,
) -> Cloned:
    """Clone the workspace with this identity, name or id into `folder` (default: the repo's name).

    `has_helper=False` chooses the second remote even where the helper is installed. `template` is
    called with the `.git` folder and says where osmosis finds workspace templates.
    """
    env = os.environ if env is None else env
    with place.open() as server:
        workspace = server.find_workspace(ref)
    try:
        identity = Identity.parse(str(workspace["identity"]))
        real = str(workspace["clone_url"])
        is_ours = workspace["provider"] == "embedded"
        if is_ours:  # the way we came, whatever name it has for others
            real = f"{place.server}/git/{identity}.git"
        workspace_id = str(workspace["id"])
    except (KeyError, GitSyncError) as e:
        raise AnswerMalformed("The server's answer about the workspace is not understood.") from e
    if urlsplit(real).scheme not in {"http", "https", "ssh"} and not _SCP_LIKE.fullmatch(real):
        raise AnswerMalformed(f"The workspace's clone URL {real} is none that Git should follow.")
    target = (folder or Path(identity.repo)).absolute()
    was_there = _must_be_free(target)
    head = branch or str(workspace.get("default_branch") or "main")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InvalidInput(f"{target} cannot be made: {e.strerror}.", field="dir") from e
    try:
        work = _Work(target, place, identity, real, env, may_ask=not is_ours)
        via = work.configure(workspace_id, has_helper=has_helper)
        sha, head = work.check_out(head, is_chosen=branch is not None, progress=shows_progress)
        work.notes += write_dotenv(
            target,
            server=place.server,
            token=place.token,
            template_path=template(target / ".git"),
            has_tracked=work.is_tracked(".env"),
        )
    except BaseException:
        _remove(target, keep_folder=was_there)
        raise
    return Cloned(target, workspace_id, str(identity), real, head, sha, via, tuple(work.notes))


def _must_be_free(target: Path) -> bool:
    if not os.path.lexists(target):
        return False
    if not target.is_dir():
        raise TargetExists(f"{target} exists and is no folder.")
    if any(target.iterdir()):
        raise TargetExists(f"{target} is not empty. Give another folder.")
    return True


def _remove(target: Path, *, keep_folder: bool) -> None:
    if not keep_folder:
        shutil.rmtree(target, ignore_errors=True)
        return
    for child in list(target.iterdir()):
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child, ignore_errors=True)
        else:
            child.unlink(missing_ok=True)


class _Work:
    """One clone in the making."""

    def __init__(
        self,
        target: Path,
        place: Place,
        identity: Identity,
        real: str,
        env: Mapping[str, str],
        *,
        may_ask: bool,
    ) -> None:
        mine = {key: value for key, value in env.items() if key not in _ELSEWHERE}
        self.git = Checkout(target, env=mine, may_ask=may_ask)
        self.target = target
        self.place = place
        self.label = f"https://github.com/{identity}.git"
        self.real = real
        self.remote = "origin"
        self.env = env
        self.notes: list[str] = []

    def _set(self, key: str, value: str, *, is_more: bool = False) -> None:
        self.git.run("config", *(["--add"] if is_more else []), key, value)

    def configure(self, workspace_id: str, *, has_helper: bool) -> str:
        """Remotes and credentials; which way the traffic goes."""
        self.git.run("init", "-q", "--object-format=sha1")
        self._set("gitsync.server", self.place.server)
        self._set("gitsync.workspace", workspace_id)
        self._set("remote.origin.url", self.label)
        self._set("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
        self._keep_token()
        exclude = self.target / ".git" / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        with exclude.open("a", encoding="utf-8") as file:
            file.write("# written by gitsync clone: holds a token\n/.env\n")
        if self.real.removesuffix(".git").lower() == self.label.removesuffix(".git").lower():
            return "origin"
        helper = find_helper(self.env) if has_helper else None
        if helper is not None and urlsplit(self.real).scheme in {"http", "https"}:
            self._set("remote.origin.vcs", "gitsync")
            self._set("remote.origin.gitsyncurl", self.real)
            # Git falls back to this where PATH lacks the helper: another shell, an editor
            self._set("alias.remote-gitsync", "!" + shlex.quote(str(helper.path)))
            if not helper.is_on_path:
                self.notes.append(
                    f"git-remote-gitsync is not on PATH; this checkout uses {helper.path}."
                )
            return "helper"
        self._second_remote()
        why = (
            "The helper git-remote-gitsync is not installed"
            if helper is None and has_helper
            else "This checkout works without the helper git-remote-gitsync"
        )
        self.notes.append(
            f"{why}: the remote `{SECOND_REMOTE}` carries the traffic, and `origin` is a label for "
            f"osmosis that pushes there too. After `git push -u origin BRANCH`, pull with "
            f"`git pull {SECOND_REMOTE} BRANCH`."
        )
        return "second-remote"

    def _second_remote(self) -> None:
        self.remote = SECOND_REMOTE
        self._set("remote.origin.pushurl", self.real)
        self._set("remote.origin.skipFetchAll", "true")
        self._set(f"remote.{SECOND_REMOTE}.url", self.real)
        self._set(f"remote.{SECOND_REMOTE}.fetch", f"+refs/heads/*:refs/remotes/{SECOND_REMOTE}/*")
        self._set("remote.pushDefault", SECOND_REMOTE)

    def _keep_token(self) -> None:
        """Credentials for the gitsync server's host only, from a file inside `.git`."""
        if not self.place.token:
            return
        parts = urlsplit(self.place.server)
        scope = f"credential.{parts.scheme}://{parts.netloc}.helper"
        self._set(scope, "")  # nobody else's helper learns or offers anything here
        self._set(scope, _CREDENTIAL_HELPER, is_more=True)
        path = self.target / ".git" / CREDENTIAL_FILE
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"username=gitsync\npassword={self.place.token}\n")
        if self.place.ca_bundle is not None:
            key = f"http.{parts.scheme}://{parts.netloc}.sslCAInfo"
            self._set(key, str(self.place.ca_bundle.absolute()))
            self._set("gitsync.caBundle", str(self.place.ca_bundle.absolute()))

    def check_out(self, head: str, *, is_chosen: bool, progress: bool) -> tuple[str | None, str]:
        """Fetch, and make the branch the current one; sha None in an empty workspace."""
        args = ["fetch", "--progress"] if progress else ["fetch", "-q"]
        self.git.run(*args, self.remote, seconds=None, shows_progress=progress)
        if not is_chosen:
            head = self._remote_head() or head
        tracking = f"refs/remotes/{self.remote}/{head}"
        full = f"refs/heads/{head}"
        if self.git.run("check-ref-format", full, more=(1,))[0]:
            raise InvalidInput(f"{head!r} is no name of a branch.", field="branch")
        code, out = self.git.run("rev-parse", "--verify", "-q", tracking, more=(1,))
        if code and is_chosen:
            raise CheckoutFailed(f"The workspace has no branch {head}.")
        self._set(f"branch.{head}.remote", self.remote)
        self._set(f"branch.{head}.merge", full)
        self.git.run("symbolic-ref", "HEAD", full)
        if code:
            self.notes.append("The workspace is empty: commit something and push it.")
            return None, head
        if head != "HEAD":  # a branch of that name lies where this link would
            self.git.run("symbolic-ref", f"refs/remotes/{self.remote}/HEAD", tracking)
        self.git.run("update-ref", full, tracking)
        self.git.run("reset", "-q", "--hard", seconds=None)
        return out.strip(), head

    def _remote_head(self) -> str | None:
        _, out = self.git.run("ls-remote", "--symref", self.remote, "HEAD", seconds=None)
        for line in out.splitlines():
            name, tab, ref = line.removeprefix("ref: refs/heads/").partition("\t")
            if line.startswith("ref: refs/heads/") and tab and ref == "HEAD":
                return name
        return None

    def is_tracked(self, path: str) -> bool:
        """True if the commit brought this file."""
        return self.git.run("ls-files", "--error-unmatch", "--", path, more=(1,))[0] == 0
