"""Remotes for the hostile runs, and what a workspace made of them in the words of the kit.

Importing this puts the vendored kit on the path.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOSTILE = Path(__file__).resolve().parents[1] / "hostile"
if str(HOSTILE) not in sys.path:
    sys.path.insert(0, str(HOSTILE))

import casebook  # noqa: E402 (from the folder above)
import make_repos  # noqa: E402
import servers  # noqa: E402

from gitsync.text import printable  # noqa: E402
from tests.crash.service import Service, command, eventually  # noqa: E402
from tests.live import workspace_files  # noqa: E402

PUBLISH, FINDING = "publish", "refuse-with-finding"
FETCH, SUPERSEDE = "refuse-fetch", "supersede"
CANARY = Path(casebook.CANARY)
_WHO = {
    f"GIT_{who}_{key}": value
    for who in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "Robin Tester"), ("EMAIL", "robin@example.com"))
} | {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
# beside the group "paths": what an honest host would not pack, so that a hostile one must send it
RAW = {
    "tree-unsorted",
    "tree-nul-in-name",
    "tree-truncated-entry",
    "tree-odd-modes",
    "tree-type-mismatch",
    "tree-null-sha",
    "tree-5000-deep",
    "delta-bomb",
    "pack-truncated",
    "pack-bit-flip",
    "missing-blob",
    "missing-tree",
    "missing-parent",
}
# where the rules of workspaces ask for more, or for another place, than the kit
KNOWN = {
    "attr-export": "three modules and no `packages`: setuptools stops (rule flat-layout)",
    "link-entrypoint-outside": "the finding stands where the config names the entrypoint",
}
_HOST_FILE = "root:x:0:0"  # what a link to /etc/passwd would bring


def patient_exit(self: servers.GitProxy, *error: object) -> None:
    """Let requests in flight end by themselves: the kit leaves a child unreaped otherwise."""
    end = time.monotonic() + 1
    while self._tasks and time.monotonic() < end:
        time.sleep(0.005)
    servers.Server.__exit__(self, *error)


servers.GitProxy.__exit__ = patient_exit


class Host(servers.GitProxy):
    """Honest for most repositories.

    Those named in `raw` are sent without opening their objects (an honest host refuses to pack what
    is damaged or forbidden), those in `slow` a few bytes at a time.
    """

    def __init__(self, root: Path, **more: Any) -> None:
        super().__init__(root, **more)
        self.raw: set[str] = set()
        self.slow: set[str] = set()

    async def answer(self, request: servers.Request, writer: Any) -> None:
        name = request.path.partition(".git")[0].lstrip("/") + ".git"
        if name in self.raw or name in self.slow:
            kind = servers.DripPack if name in self.slow else servers.Remote
            inner = kind(self.root / name)
            inner._loop.close()  # made for a server of its own, which this is not
            await inner.answer(request, writer)
        else:
            await super().answer(request, writer)


def build(out: Path, *, big: bool = False, only: set[str] | None = None) -> dict[str, dict]:
    """The kit's repositories; their manifest entries by name."""
    made = casebook.make(make_repos.book.cases, out, big=big, only=only)
    return {entry["name"]: entry for entry in made["repos"]}


def git(*args: str, cwd: Path | None = None) -> str:
    """Run the real git."""
    done = subprocess.run(
        ["git", *args],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **_WHO, "HOME": "/nonexistent", "no_proxy": "*"},
    )
    assert done.returncode == 0, f"git {args}: {done.stderr}"
    return done.stdout.strip()


def raw_blob(repo: Path, oid: str) -> bytes:
    """The bytes of a blob."""
    done = subprocess.run(
        ["git", "cat-file", "blob", oid], cwd=repo, capture_output=True, check=True, timeout=60
    )
    return done.stdout


class Origin:
    """A bare repository that a proxy serves, changed by real pushes."""

    def __init__(self, root: Path, name: str) -> None:
        self.path, self.work = root / f"{name}.git", root / f"{name}.work"
        git("init", "-q", "--bare", "-b", "main", str(self.path))
        git(f"--git-dir={self.path}", "config", "gc.auto", "0")
        git(f"--git-dir={self.path}", "config", "receive.denyDeleteCurrent", "ignore")
        git("init", "-q", "-b", "main", str(self.work))
        git("remote", "add", "origin", str(self.path), cwd=self.work)
        self._count = 0

    def commit(self, files: dict[str, str] | None = None, message: str = "Change") -> str:
        """Commit in the working copy: the good workspace first, then whatever is given."""
        self._count += 1
        if files is None:
            files = {"README.md": f"# {self._count}\n"}
        if self._count == 1:
            files = {**workspace_files(), **files}
        for name, text in files.items():
            target = self.work / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        git("add", "-A", cwd=self.work)
        git("commit", "-q", "--allow-empty", "-m", message, cwd=self.work)
        return git("rev-parse", "HEAD", cwd=self.work)

    def push(self, *refspecs: str) -> str:
        """Push, by default a new commit to main; the sha of HEAD."""
        if not refspecs:
            self.commit()
            refspecs = ("+HEAD:refs/heads/main",)
        git("push", "-q", "origin", *refspecs, cwd=self.work)
        return git("rev-parse", "HEAD", cwd=self.work)

    def git(self, *args: str) -> str:
        """In the working copy."""
        return git(*args, cwd=self.work)

    def bare(self, *args: str) -> str:
        """In the bare repository."""
        return git(f"--git-dir={self.path}", *args)


class Healthy:
    """A workspace that is pushed to and synced all the while; `slowest` seconds to be published."""

    def __init__(self, service: Service, proxy: servers.GitProxy, *, name: str = "healthy") -> None:
        self._service = service
        self.origin = Origin(proxy.root, name)
        self.origin.push()
        self.workspace = service.connect(name, proxy.url_of(f"{name}.git"))
        self.slowest, self.pushes = 0.0, 0
        self.faults: list[str] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Healthy:
        self._service.idle(self.workspace)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(90)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.once()
            except Exception as e:  # told by the test, not by a thread nobody sees
                self.faults.append(f"{type(e).__name__}: {e}")
                return
            self._stop.wait(1.0)

    def once(self) -> None:
        """Push once and wait until it is published."""
        with self._lock:
            sha = self.origin.push()
            begun = time.monotonic()
            status = self._service.status(self.workspace, sha, wait=60)
            self.slowest = max(self.slowest, time.monotonic() - begun)
            if status["state"] != "published":
                self.faults.append(f"{sha} is {status['state']}: {status['reason']}")
            self.pushes += 1


@dataclass(slots=True)
class Judged:
    """One state of one case: what came of it and what is wrong with that."""

    case: str
    state: str
    verdict: str
    must: str
    seconds: float
    faults: list[str] = field(default_factory=list)
    detail: str = ""

    @property
    def by_accept(self) -> bool:
        """True if only the second-best verdict was reached."""
        return self.verdict != self.must


class Runner:
    """Takes cases through a service and judges them."""

    def __init__(
        self,
        service: Service,
        repos: Path,
        cases: dict[str, dict],
        host: Host,
    ) -> None:
        self.service, self.repos, self.cases, self.host = service, repos, cases, host

    def run(self, name: str) -> list[Judged]:
        """One case: the good state first, then every recorded one."""
        entry, service = self.cases[name], self.service
        can_move = all(s["refs"] is not None for s in entry["states"]) and name not in (
            "head-symref-loop",
            "repo-empty",
        )
        # what is damaged on disk is damaged in its good commit too
        good = entry["good"] if can_move and entry["group"] != "storage" else None
        if good:
            casebook.set_state(self.repos, name, "good")
        elif can_move:
            casebook.set_state(self.repos, name, 0)
        is_raw = entry["group"] == "paths" or name in RAW
        if is_raw and not good:
            self.host.raw.add(entry["repo"])
        begun = time.monotonic()
        workspace = service.connect(name, self.host.url_of(entry["repo"]))
        first = service.ended(workspace, workspace["sync_id"], wait=entry["bounds"]["seconds"] + 10)
        last: tuple[str, str] | None = None
        if good:
            status = service.status(workspace, good)
            if status["state"] != "published":
                return [
                    Judged(name, "good", status["state"], PUBLISH, 0, [f"good: {status['reason']}"])
                ]
            last = good, self._archive(workspace, good)
        found = []
        for index, state in enumerate(entry["states"]):
            if not good and index == 0:
                sync = first
            else:
                if is_raw:
                    self.host.raw.add(entry["repo"])
                if can_move:
                    casebook.set_state(self.repos, name, index)
                begun = time.monotonic()
                sync = service.sync(workspace, wait=entry["bounds"]["seconds"] + 10)
            judged = self._judge(entry, state, workspace, sync, time.monotonic() - begun, last)
            found.append(judged)
            if judged.verdict in (PUBLISH, SUPERSEDE) and state["tip"]:
                last = state["tip"], self._archive(workspace, state["tip"])
        return found

    def _archive(self, workspace: dict[str, Any], sha: str) -> str:
        """The digest of a version's content: every path, mode and byte."""
        return hashlib.sha256(repr(self.content(workspace, sha)).encode()).hexdigest()

    def content(self, workspace: dict[str, Any], sha: str) -> dict[str, tuple[str, str]]:
        """Mode and sha256 by path, as the archive of a version shows them."""
        answer = self.service.call(
            "GET", f"/workspaces/{workspace['id']}/versions/{sha}/archive.tar.gz"
        )
        assert answer.status_code == 200, answer.text
        return tar_content(answer.content)

    def _judge(
        self,
        entry: dict,
        state: dict,
        workspace: dict[str, Any],
        sync: dict[str, Any],
        seconds: float,
        last: tuple[str, str] | None,
    ) -> Judged:
        service, tip = self.service, state["tip"]
        now = service.workspace(workspace)
        served = {b["published_sha"] for b in now["branches"] if b["state"] == "live"}
        findings, verdict, manifest = list(sync["findings"]), "none", None
        if sync["outcome"] in ("error", "waiting"):
            verdict = FETCH if sync["error"] and sync["error"]["message"] else "silence"
        elif sync["outcome"] == "refused":
            verdict = FINDING if findings else "silence"
        elif sync["outcome"] in ("published", "published_with_errors") and tip in served:
            manifest = service.get(f"/workspaces/{workspace['id']}/versions/{tip}")
            findings += manifest["findings"]
            findings += [
                f for r in manifest["rollouts"] for e in r["entrypoints"] for f in e["findings"]
            ]
            verdict = SUPERSEDE if state["must"] == SUPERSEDE else PUBLISH
            if not _usable(manifest):
                verdict = FINDING
        judged = Judged(entry["name"], state["what"], verdict, state["must"], seconds)
        error = sync["error"] or {}
        judged.detail = f"{sync['outcome']} {error.get('code', '')} {error.get('message', '')}"
        fault = judged.faults.append
        allowed = {state["must"], *entry["accept"]}
        if len(entry["states"]) > 1:
            allowed = {state["must"]}
        known = entry["name"] in KNOWN and verdict == FINDING
        if verdict not in allowed and not known:
            fault(f"{verdict} ({judged.detail}), allowed {sorted(allowed)}; served {served}")
        if seconds > entry["bounds"]["seconds"]:
            fault(f"took {seconds:.1f} s")
        if wrong := served & set(entry.get("not_tip", ())):
            fault(f"serves {wrong}")
        places = entry["finding"]["at"]
        wanted = verdict == FINDING or (
            verdict == PUBLISH and entry["finding"]["warn_when_published"]
        )
        if places and wanted and not known and not _names(findings, places):
            fault(f"no finding at {places}, but at {sorted({f['path'] for f in findings})[:8]}")
        if verdict in (FETCH, FINDING) and last is not None:
            self._still_good(workspace, served, last, tip, fault)
        if manifest is not None and tip is not None and entry["bytes"].keys() | entry["modes"]:
            self._bytes(entry, workspace, manifest, fault)
        return judged

    def _still_good(
        self,
        workspace: dict[str, Any],
        served: set[str | None],
        last: tuple[str, str],
        tip: str | None,
        fault: Callable[[str], None],
    ) -> None:
        """`drop-last-good`: what was published is readable and the same."""
        if self._archive(workspace, last[0]) != last[1]:
            fault("the last good version changed")
        if served and served <= {tip} and tip != last[0]:
            # the broken commit is served: the good one must be named for its rollouts
            for rollout in self.service.get(f"/workspaces/{workspace['id']}/rollouts")["items"]:
                if rollout["name"] != "demo" or rollout["verdict"] == "ok":
                    continue
                good = [e.get("last_good") or {} for e in rollout["entrypoints"]] or [
                    rollout.get("last_good") or {}
                ]
                if last[0] not in [g.get("commit_sha") for g in good]:
                    fault(f"last_good is {good}, not {last[0]}")

    def _bytes(
        self,
        entry: dict,
        workspace: dict[str, Any],
        manifest: dict[str, Any],
        fault: Callable[[str], None],
    ) -> None:
        """`alter`: bytes and modes of the archive and of the artifacts are the commit's."""
        seen = [self.content(workspace, manifest["commit_sha"])]
        for rollout in manifest["rollouts"]:
            if rollout["digest"]:
                path = f"/workspaces/{workspace['id']}/artifacts/{rollout['digest']}.tar"
                answer = self.service.call("GET", path)
                if hashlib.sha256(answer.content).hexdigest() != rollout["digest"]:
                    fault(f"the artifact of {rollout['name']} has another digest")
                seen.append(tar_content(answer.content))
        for path, digest in entry["bytes"].items():
            if path not in seen[0]:
                fault(f"{path} is missing from the archive")
            for content in seen:
                if path in content and content[path][1] != digest:
                    fault(f"{path} has other bytes")
        for path, mode in entry["modes"].items():
            for content in seen:
                if path in content and content[path][0] != mode[-3:]:
                    fault(f"{path} has mode {content[path][0]}, not {mode}")


def tar_content(data: bytes) -> dict[str, tuple[str, str]]:
    """Mode and sha256 (for links: target) of every member of a tar."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            if member.issym():
                found[member.name] = ("link", member.linkname)
            elif member.isfile():
                file = tar.extractfile(member)
                assert file is not None
                digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
                found[member.name] = (f"{member.mode:o}", digest)
    return found


def _usable(manifest: dict[str, Any]) -> bool:
    """True if all rollouts can run and no config is unusable (design section 5)."""
    if any(r["verdict"] != "ok" for r in manifest["rollouts"]):
        return False
    return not any(
        f["severity"] == "error" and f["path"].startswith(("configs/", "rollouts/"))
        for f in manifest["findings"]
        if f["code"] != "committed-secret"
    )


def _names(findings: list[dict[str, Any]], places: list[str]) -> bool:
    """True if a finding names one of the places, however it escapes them."""
    wanted = {form for place in places for form in (place, printable(place))}
    return any(
        path.startswith(place) or place.startswith(path + "/")
        for path in {f["path"] for f in findings}
        for place in wanted
    )


def outputs(service: Service) -> str:
    """Everything the service said to anybody: log, answers, events."""
    events = service.call("GET", "/events", params={"after": 0, "wait": 0, "limit": 200})
    return service.said() + "\n".join(service.answers) + events.text


def side_effects(service: Service, secrets: dict[str, list[str]]) -> list[str]:
    """Forbidden effects that show after a run: bait that ran, files elsewhere, leaks, controls."""
    faults = []
    if CANARY.exists():
        faults.append(f"{CANARY} exists: something named by a repository ran")
    strange = [str(p) for p in service.elsewhere.rglob("*")]
    if strange:
        faults.append(f"files outside the data folder: {strange[:5]}")
    said = outputs(service)
    if _HOST_FILE in said:
        faults.append("the content of a host's file was shown")
    for name, values in secrets.items():
        faults += [f"{name}: a secret of the repository was shown" for v in values if v in said]
    log = service.log.read_bytes()
    if bad := {b for b in log if b < 32 and b != 10}:
        faults.append(f"raw control characters in the log: {sorted(bad)}")
    if "\u202e" in service.said():
        faults.append("a raw bidirectional mark in the log")
    with suppress(FileNotFoundError):
        CANARY.unlink()
    return faults


__all__ = [
    "FETCH",
    "FINDING",
    "PUBLISH",
    "SUPERSEDE",
    "KNOWN",
    "Healthy",
    "Host",
    "Judged",
    "Origin",
    "Runner",
    "build",
    "casebook",
    "command",
    "eventually",
    "git",
    "make_repos",
    "outputs",
    "raw_blob",
    "shutil",
    "servers",
    "side_effects",
    "tar_content",
]
