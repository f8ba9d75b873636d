"""Warnings about an entrypoint: where they stand, and the names that they give."""

from __future__ import annotations

import pytest

from gitsync.check.aging import rules
from gitsync.check.python import check_entrypoint
from gitsync.model import CheckOptions
from tests.check.folder import Link, Memory

HEAD = """from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend
from osmosis_ai.rollout.server import create_rollout_server
"""
FLOW = """class Flow(AgentWorkflow):
    async def run(self, ctx):
        return [*ctx.prompt]
"""
SCORE = """class Score(Grader):
    async def grade(self, ctx):
        ctx.set_reward(1.0)
"""
TAIL = """def main():
    create_rollout_server(backend=LocalBackend(workflow=Flow, grader=Score))
"""
PROJECT = """[project]
name = "demo"
version = "0.1.0"
dependencies = ["osmosis-ai[server]", "boto3", "httpx", "litellm", "openai", "tenacity"{more}]
"""


def places(flow: str = FLOW, score: str = SCORE, **more: str) -> list[tuple[str, str, int, int]]:
    """Code and place of each finding; `more` are further modules."""
    files = {f"rollouts/demo/{name}.py": text for name, text in more.items()}
    files["rollouts/demo/main.py"] = HEAD + flow + score + TAIL
    files["rollouts/demo/pyproject.toml"] = PROJECT.format(more="")
    report = check_entrypoint(Memory(files), "demo", "main.py", options=CheckOptions())
    return [
        (f.code, f.path.removeprefix("rollouts/demo/"), f.line, f.column) for f in report.findings
    ]


def test_a_policy_call_is_told_where_the_request_is_made() -> None:
    flow = """import asyncio
import boto3
from llm import ask
client = boto3.client(service_name="bedrock-runtime")
class Flow(AgentWorkflow):
    async def run(self, ctx):
        client.invoke_model(modelId="m", body="{}")
        return await asyncio.gather(*[ask(m) for m in ctx.prompt])
"""
    llm = """from openai import AsyncOpenAI
from tenacity import retry
client = AsyncOpenAI()
@retry
async def ask(message):
    return await client.responses.create(model="m", input=message)
"""
    code = "hard-coded-provider-call"
    assert places(flow, llm=llm) == [(code, "llm.py", 6, 18), (code, "main.py", 9, 9)]


def test_a_request_that_is_handed_on_is_told_where_it_is_handed_on() -> None:
    flow = """import asyncio
import openai
client = openai.OpenAI()
class Flow(AgentWorkflow):
    async def run(self, ctx):
        return [
            await asyncio.to_thread(
                client.responses.create, model="m", input=ctx.prompt
            )
        ]
"""
    assert places(flow) == [("hard-coded-provider-call", "main.py", 10, 17)]


def test_only_the_decorator_that_hides_the_method_is_told() -> None:
    flow = """import tenacity
class Flow(AgentWorkflow):
    @staticmethod
    @tenacity.retry(stop=tenacity.stop_after_attempt(2))
    async def run(ctx):
        return []
"""
    assert places(flow) == [("unverified-method", "main.py", 6, 6)]


def test_the_first_relative_import_that_must_succeed_is_told() -> None:
    flow = f"""try:
    from .fast import helper
except ImportError:
    helper = None
{FLOW}
def late():
    from . import schema
from .schema import Row
"""
    given = places(flow, schema="class Row: ...")
    assert given == [("relative-import-entrypoint", "main.py", 12, 5)]


def test_removed_api_is_told_where_the_context_is_used() -> None:
    score = """from scoring import mean
class Score(Grader):
    async def grade(self, ctx):
        ctx.set_reward(mean(ctx))
"""
    scoring = "def mean(given):\n    return len(given.samples)\n"
    assert places(score=score, scoring=scoring) == [("removed-api", "scoring.py", 2, 16)]


@pytest.mark.parametrize(
    ("module", "distribution"),
    [
        ("botocore.exceptions", "boto3"),
        ("cv2", "opencv-python-headless"),
        ("discord", "discord.py"),
        ("dns.resolver", "dnspython"),
        ("googleapiclient.discovery", "google-api-python-client"),
        ("grpc", "grpcio"),
        ("mpl_toolkits.mplot3d", "matplotlib"),
        ("pdfminer.high_level", "pdfminer.six"),
        ("ruamel.yaml", "ruamel.yaml"),
        ("snowflake.connector", "snowflake-connector-python"),
        ("tensorflow", "tensorflow-cpu"),
        ("yaml", "PyYAML"),
    ],
)
def test_a_module_may_come_in_a_distribution_of_another_name(
    module: str, distribution: str
) -> None:
    main = f"import {module}\n{HEAD}{FLOW}{SCORE}{TAIL}"
    for declared, codes in ((f', "{distribution}"', []), ("", ["undeclared-dependency"])):
        files = {
            "rollouts/demo/main.py": main,
            "rollouts/demo/pyproject.toml": PROJECT.format(more=declared).replace(
                ' "boto3",', "" if distribution == "boto3" and not declared else ' "boto3",'
            ),
        }
        report = check_entrypoint(Memory(files), "demo", "main.py", options=CheckOptions())
        assert [f.code for f in report.findings] == codes


def test_a_link_that_leads_nowhere_is_not_suggested() -> None:
    files = {
        "rollouts/demo/main.py": Link("gone.py"),
        "rollouts/demo/app.py": "",
        "rollouts/demo/pyproject.toml": PROJECT.format(more=""),
    }
    for entrypoint, words in (
        ("main.py", ("a link to a file that the commit lacks", "such as app.py")),
        ("mian.py", ("There is no file mian.py", "such as app.py")),
        ("ap.py", ("There is no file ap.py", "such as app.py")),
    ):
        report = check_entrypoint(Memory(files), "demo", entrypoint, options=CheckOptions())
        (finding,) = report.findings
        assert finding.code == "entrypoint-missing"
        assert all(word in finding.message for word in words)


def test_the_names_of_distributions_are_sorted_and_normalised() -> None:
    brought_by = rules("distributions")["brought_by"]
    assert list(brought_by) == sorted(brought_by, key=str.casefold)
    for name, distributions in brought_by.items():
        assert distributions == sorted(distributions)
        assert all(d == d.lower() and not set(d) & set("._") for d in distributions)
        assert name not in distributions


def test_a_condition_that_fails_the_import_is_told_with_the_place_that_raises() -> None:
    text = f"""{HEAD}import os
def require(name):
    value = os.environ.get(name)
    if not value:
        raise RuntimeError(name)
    return value
KEY = require("JUDGE_API_KEY")
{FLOW}{SCORE}{TAIL}"""
    files = {
        "rollouts/demo/main.py": text,
        "rollouts/demo/pyproject.toml": PROJECT.format(more=""),
    }
    report = check_entrypoint(Memory(files), "demo", "main.py", options=CheckOptions())
    assert [f.subject for f in report.findings] == ["grader", "workflow"]
    raised = text.split("\n").index("        raise RuntimeError(name)") + 1
    for finding in report.findings:
        assert f"whether the import fails at main.py:{raised}" in finding.message
        assert finding.message.endswith("in a function that the server calls, not while importing.")
