"""The description of the API is true: Schemathesis calls every operation with odd input."""

from __future__ import annotations

import json
import zlib

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks
from schemathesis.checks import load_all_checks

from gitsync.web import api
from tests.live import live_server
from tests.runs.kit import Team
from tests.web.conftest import publish_two

pytestmark = [
    pytest.mark.slow,  # CI and `make test-all` run it
    # schemathesis itself draws from `random` now and then
    pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies"),
]


load_all_checks()
CHECKS = checks.CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)
# these would end the workspace that the others read
ENDING = ("suspend", "disconnect", "rotate", "credential", "members", "PATCH", "DELETE", "resume")
# and these would commit to it
CHANGING = ("/adopt", "/skills", "/templates")


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("odd"), wait_max_s=0.2, push_wait_s=2.0) as live:
        published = publish_two(live)
        live.token_id = live.get("/whoami")["token"]["id"]
        live.spare = live.create("spare")
        live.delivery = live.get(published.path + "/deliveries")["items"][0]["id"]
        live.sync = live.get(published.path + "/syncs")["items"][0]["id"]
        live.published = published
        team = Team(live, published.workspace, published.checkout, published.bad, live.token, "")
        team.upload()
        live.held = [team.submit() for _ in range(3)]
        live.executor = team.executor()
        live.claim = live.executor.claim()
        yield live


@pytest.fixture(scope="module")
def description(room):
    return httpx.get(f"{room.url}/api/v1/openapi.json", trust_env=False, verify=False).json()


@pytest.fixture(scope="module")
def schema(room, description):
    found = schemathesis.openapi.from_dict(description)
    found.config.update(base_url=room.url)
    return found


def _aim(case, room) -> None:
    """Three times in four, at things that exist: random ids only ever find nothing."""
    place = json.dumps([case.path_parameters, case.query], default=str, sort_keys=True)
    if zlib.crc32(place.encode()) % 4 == 0:
        return
    published = room.published
    is_ending = case.method == "DELETE" or any(word in case.path for word in (*ENDING, *CHANGING))
    known = {
        "workspace_id": room.spare["id"] if is_ending else published.workspace["id"],
        "sha": published.good,
        "digest": published.digest,
        "delivery_id": room.delivery,
        "sync_id": room.sync,
        "provider": "github",
        "email": "nobody@example.com",
    }
    if "/templates/" in case.path:
        known["name"] = "minimal-local"
    known |= {"run": room.held[2]["name"], "run_id": room.claim["run"]["id"]}
    if isinstance(case.body, dict) and "claim_id" in case.body:
        case.body["claim_id"] = room.claim["claim_id"]
    if isinstance(case.body, dict) and "wait" in case.body:
        case.body["wait"] = 0
    for name in case.path_parameters or {}:
        if name in known:
            case.path_parameters[name] = known[name]
    if "from" in (case.query or {}):
        case.query["from"] = published.bad


def _call(case, room) -> None:
    _aim(case, room)
    if case.path.endswith("/workspaces/test") and isinstance(case.body, dict):
        case.body["clone_url"] = "http://127.0.0.1:9/x.git"  # reach out to nobody
    is_for_executors = case.path.startswith("/api/v1/runs/")
    token = room.executor.secret if is_for_executors else room.token
    headers = {"Authorization": f"Bearer {token}"}
    case.call_and_validate(checks=CHECKS, headers=headers, timeout=30)


OPERATIONS = sorted(api.routes()) + [
    ("POST", "/hooks/{provider}/{workspace_id}"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def _examine(schema, room, operation, *, examples: int, **more) -> None:
    method, path = operation
    found = schema[path][method]
    strategy = found.as_strategy(generation_mode=GenerationMode.POSITIVE)
    if found.path_parameters or found.query or found.body:
        strategy |= found.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=QUIET,
        phases=[Phase.explicit, Phase.generate],
        **more,
    )
    @given(case=strategy)
    def call(case):
        _call(case, room)

    call()


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_an_operation_answers_as_described(schema, room, operation):
    _examine(schema, room, operation, examples=4, derandomize=True)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_an_operation_answers_as_described_at_length(schema, room, operation):
    _examine(schema, room, operation, examples=150)


def test_every_json_answer_and_every_error_is_described(description):
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation.get("summary") and operation.get("description"), where
            for status, answer in operation["responses"].items():
                for kind, content in answer.get("content", {}).items():
                    if kind == "application/json":
                        assert content["schema"], (where, status)
                if int(status) >= 400 and path.startswith("/api/") and status != "416":
                    schema = answer["content"]["application/json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/Error"}, where
            assert "422" not in operation["responses"], where


def test_writing_operations_name_the_idempotency_key(description):
    for method, path in api.routes():
        parameters = description["paths"][path][method.lower()].get("parameters", [])
        has = any(p["name"] == "Idempotency-Key" for p in parameters)
        assert has == (method in {"POST", "PUT", "PATCH", "DELETE"}), (method, path)


def test_operation_ids_are_unique(description):
    ids = [o["operationId"] for path in description["paths"].values() for o in path.values()]
    assert len(ids) == len(set(ids)) > 40
