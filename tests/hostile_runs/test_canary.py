"""Credentials and webhook secrets are nowhere in clear: logs, rows, answers, processes, files."""

from __future__ import annotations

import base64
import os
import sqlite3
from contextlib import ExitStack, closing
from urllib.parse import quote

import pytest

from tests.crash.service import Service, Watch, eventually
from tests.hostile_runs import kit
from tests.hostile_runs.kit import servers

import webhook_clients as hooks  # isort: skip (from the folder that the kit puts on the path)

USER = "robin"
TOKEN = "canary-tok-Vb7!x+Q/9Zr"
PASSWORD = "canary pass:Vb7%x+Q/9Zr"


def _forms(secret: str) -> list[bytes]:
    """The secret as it might be written."""
    forms = {secret, quote(secret), quote(secret, safe="")}
    for user in (USER, "x-access-token"):
        pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
        forms |= {pair, pair.rstrip("=")}
    return [form.encode() for form in forms]


def _rows(service: Service) -> bytes:
    """Every value of every row, as text."""
    with closing(sqlite3.connect(service.data / "gitsync.db")) as db:
        tables = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        assert len(tables) > 20
        return b"\n".join(
            repr(row).encode() for table in tables for row in db.execute(f"SELECT * FROM {table}")
        )


def _files(service: Service) -> dict[str, bytes]:
    """Every file in the data folder; large ones too, there are few."""
    found = {}
    for folder, _, names in os.walk(service.data):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[path] = file.read()
    return found


@pytest.mark.slow
def test_secrets_are_never_in_clear(tmp_path):
    root = tmp_path / "root"
    (root / "acme").mkdir(parents=True)
    origins = [kit.Origin(root / "acme", f"r{n}") for n in range(3)]
    for origin in origins:
        origin.push()
        origin.bare("repack", "-adq")
    repo = origins[0].path
    with ExitStack() as stack:
        by_token = stack.enter_context(kit.Host(root, auth=("x-access-token", TOKEN), latency=0.05))
        by_password = stack.enter_context(kit.Host(root, auth=(USER, PASSWORD), latency=0.05))
        catcher = stack.enter_context(servers.Catcher())
        refusing = stack.enter_context(servers.Failing(repo, status=401, times=99))
        elsewhere = stack.enter_context(servers.Redirect(to=catcher.origin))
        stalling = stack.enter_context(servers.StallMidPack(repo))
        garbage = stack.enter_context(servers.GarbagePack(repo, kind="html"))
        progress = stack.enter_context(servers.EndlessProgress(repo))
        everybody = (by_token, by_password, refusing, elsewhere, stalling, garbage, progress)
        service = stack.enter_context(
            Service(
                tmp_path / "service",
                allowed_hosts=[f"127.0.0.1:{s.port}" for s in everybody],
                fetch_deadline_s=3.0,
                backoff_max_s=1.0,
                log_level="debug",
            )
        )
        watch = stack.enter_context(Watch(service, period=0.01))
        token = {"kind": "token", "secret": TOKEN}
        password = {"kind": "password", "username": USER, "secret": PASSWORD}
        good = [
            service.connect(
                f"good-{n}",
                host.url_of(f"acme/r{n}.git"),
                provider="github",
                identity=f"acme/r{n}",
                credential=credential,
            )
            for n, (host, credential) in enumerate(((by_token, token), (by_password, password)), 1)
        ]
        bad = [
            service.connect(f"bad-{n}", remote.url, credential=(token, password)[n % 2])
            for n, remote in enumerate((refusing, elsewhere, stalling, garbage, progress))
        ]
        secrets = [TOKEN, PASSWORD, *(w["webhook"]["secret"] for w in (*good, *bad))]
        for workspace in (*good, *bad):
            service.ended(workspace, workspace["sync_id"])
        for number, workspace in enumerate(good, 1):
            sha = origins[number].push()
            target = hooks.Target(
                workspace["webhook"]["url"],
                workspace["webhook"]["secret"],
                repo=f"acme/r{number}",
                after=sha,
            )
            assert hooks.send(target, hooks.delivery(target, hooks.payload(target))).status == 202
            eventually(lambda w=workspace, s=sha: service.served(w) == s)
            wrong = hooks.replace(target, secret="another-canary-" + "s" * 20)
            assert hooks.send(wrong, hooks.delivery(wrong, hooks.payload(wrong))).status == 401
        service.post("/workspaces/test", {"clone_url": refusing.url, "credential": token})
        service.post("/workspaces/test", {"clone_url": by_token.url, "credential": password})
        refused = service.call(
            "POST",
            "/workspaces",
            json={
                "name": "url",
                "provider": "generic",
                "connect": {"clone_url": f"http://{USER}:{quote(TOKEN, safe='')}@127.0.0.1/x.git"},
            },
        )
        assert refused.status_code == 400
        rotated = service.post(f"/workspaces/{good[0]['id']}/webhook-secret/rotate")
        secrets.append(rotated["webhook"]["secret"] if "webhook" in rotated else rotated["secret"])
        for workspace in (*good, *bad):
            path = f"/workspaces/{workspace['id']}"
            for part in ("", "/syncs", "/deliveries", "/versions", "/rollouts"):
                service.get(path + part)
        metrics = service.call("GET", f"{service.url}/metrics")
        said = kit.outputs(service).encode() + metrics.content
        # each webhook secret is told once, in the answer that makes it
        for secret in secrets[2:]:
            assert said.count(secret.encode()) == 1, "a webhook secret was shown again"
        told = set(secrets[2:])
        places = {"output": said, "rows": _rows(service)}
        places |= _files(service)
        assert any("/mirrors/" in path for path in places), "the mirrors were searched too"
        assert len(watch.seen) > 20, "processes were sampled"
        places |= {f"process {n}": text for n, text in enumerate(watch.seen)}
        assert catcher.requests == []
        for secret in secrets:
            for form in _forms(secret):
                where = [name for name, data in places.items() if form in data]
                if secret in told:
                    where = [name for name in where if name != "output"]
                assert not where, f"a secret is in {where}"
