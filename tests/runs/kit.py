"""A workspace that can run things, and an executor: everything over HTTP, as a team would."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.live import GOOD_MAIN, NO_GRADER, Checkout, Live, workspace_files

ROWS = "".join(f'{{"user_prompt": "{n}+{n}?", "ground_truth": "{2 * n}"}}\n' for n in range(6))


@dataclass
class Team:
    """A published workspace with a data set `sums`, and a token of its owner."""

    live: Live
    workspace: dict[str, Any]
    checkout: Checkout
    sha: str
    token: str
    email: str
    _executor: str = field(default="")

    @property
    def path(self) -> str:
        return f"/workspaces/{self.workspace['id']}"

    def cli(self, method: str, path: str, *, token: str | None = None, **more: Any):
        """One request as the osmosis client sends it."""
        headers = {
            "X-Osmosis-Workspace": self.workspace["name"],
            "X-Osmosis-CLI-Version": "0.3.8",
        } | more.pop("headers", {})
        return self.live.call(
            method, f"//api/cli/{path}", token=token or self.token, headers=headers, **more
        )

    def got(self, path: str, **more: Any) -> Any:
        answer = self.cli("GET", path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def body(self, kind: str = "eval", **experiment: Any) -> dict[str, Any]:
        """What the client sends for the config of the workspace."""
        body: dict[str, Any] = {
            "experiment_config": {
                "rollout": "alpha",
                "entrypoint": "main.py",
                "model_path": "openai/gpt-5-mini" if kind == "eval" else "Qwen/Qwen3.6-35B-A3B",
                "dataset": "sums",
                **experiment,
            }
        }
        if kind == "eval":
            body["secrets"] = {
                "required": ["OPENAI_API_KEY"],
                "provided": {"OPENAI_API_KEY": "sk-run-only"},
            }
        return body

    def submit(self, kind: str = "eval", *, body: Any = None, **experiment: Any) -> dict[str, Any]:
        path = "eval-runs" if kind == "eval" else "training-runs"
        answer = self.cli("POST", path, json=body or self.body(kind, **experiment))
        assert answer.status_code == 201, answer.text
        return answer.json()

    def refused(self, status: int, code: str, kind: str = "eval", **body: Any) -> dict[str, Any]:
        """Submit something wrong; no run may exist afterwards."""
        path = "eval-runs" if kind == "eval" else "training-runs"
        before = self.got(path)["total_count"]
        given = body.pop("body", None) or self.body(kind) | body
        answer = self.cli("POST", path, json=given)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
        assert self.got(path)["total_count"] == before
        return answer.json()

    def logs(self, run: dict[str, Any], kind: str = "eval") -> list[dict[str, Any]]:
        path = "eval-runs" if kind == "eval" else "training-runs"
        return self.got(f"{path}/{run['name']}/logs?limit=200")["logs"]

    def upload(self, name: str = "sums", content: str = ROWS) -> dict[str, Any]:
        """Upload a data set and wait until it is checked."""
        data = content.encode()
        made = self.cli(
            "POST",
            "datasets",
            json={"file_name": name, "file_size": len(data), "extension": "jsonl"},
        )
        assert made.status_code < 300, made.text
        put = httpx.put(
            made.json()["upload"]["presigned_url"],
            content=data,
            headers=made.json()["upload"].get("upload_headers") or {},
            trust_env=False,
            verify=False,
        )
        assert put.status_code < 300, put.text
        done = self.cli(
            "POST", f"datasets/{made.json()['id']}/complete", json={"file_extension": "jsonl"}
        )
        assert done.status_code < 300, done.text
        for _ in range(200):
            found = self.got(f"datasets/{name}")
            if found["status"] not in ("pending", "uploading", "processing"):
                break
            time.sleep(0.05)
        assert found["status"] == "uploaded", found
        return found

    def executor(self, *kinds: str) -> Executor:
        """A new executor for this workspace."""
        body = {"name": "gpu-7", "role": "executor", "workspaces": [self.workspace["id"]]}
        if kinds:
            body["kinds"] = list(kinds)
        made = self.live.post("/tokens", body, status=201)
        return Executor(self.live, made["secret"], made["token"]["id"])

    def stop_all(self) -> None:
        """Leave nothing that another test's executor would claim."""
        for run in self.live.get(f"{self.path}/runs?limit=200")["items"]:
            if run["state"] in ("pending", "running"):
                self.live.post(f"{self.path}/runs/{run['name']}/stop")


@dataclass
class Executor:
    """Carries runs out over HTTP."""

    live: Live
    secret: str
    token_id: str

    def call(self, path: str, body: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
        method = "GET" if body is None else "POST"
        return self.live.call(method, path, token=self.secret, json=body, **more)

    def claim(self, *kinds: str, wait: float = 0, **more: Any) -> dict[str, Any] | None:
        body = {"kinds": list(kinds or ("eval",)), "wait": wait}
        answer = self.call("/runs/claim", body, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()["claim"]

    def say(self, claim: dict[str, Any], what: str, status: int = 200, **body: Any) -> Any:
        answer = self.call(
            f"/runs/{claim['run']['id']}/{what}", {"claim_id": claim["claim_id"], **body}
        )
        assert answer.status_code == status, answer.text
        return answer.json()

    def finish(self, claim: dict[str, Any], rewards: list[float | None], **more: Any) -> Any:
        """Say all samples, then the end."""
        samples = [
            {
                "row_index": n,
                "reward": reward,
                "tokens": 10,
                "status": "failed" if reward is None else "completed",
            }
            for n, reward in enumerate(rewards)
        ]
        if samples:
            self.say(claim, "samples", samples=samples)
        return self.say(claim, "finish", **({"state": "finished"} | more))


def make_team(live: Live) -> Team:
    """`alpha` runs and `beta` does not, for want of a grader."""
    live._count += 1
    email = f"robin-{live._count}@example.com"
    workspace = live.create()
    _, token = live.user(email, name="Robin")
    member = live.call(
        "PUT", f"/workspaces/{workspace['id']}/members/{email}", json={"role": "owner"}
    )
    assert member.status_code == 200
    checkout = live.checkout(workspace)
    checkout.commit(workspace_files(alpha=GOOD_MAIN, beta=GOOD_MAIN), "First")
    checkout.push("-q", "origin", "main")
    sha = checkout.commit({"rollouts/beta/main.py": NO_GRADER}, "Second")
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, sha)["state"] == "published_with_errors"
    team = Team(live, workspace, checkout, sha, token, email)
    team.upload()
    return team
