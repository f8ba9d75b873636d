"""Live credentials are found and never repeated; look-alikes are left alone."""

from __future__ import annotations

import pytest

from gitsync.check import inspect
from gitsync.check.secrets import BLOCK, read_content
from tests.check.trees import (
    EVAL,
    outer,
    workspace,
)

TOKENS = {
    "github": "ghp_" + "a8Kd0Lq2Zx9Vb3Nm7Wt5Ye1Rc6Uf4Hs8GJ2q",
    "github-letters": "ghp_" + "aKdqLZxVbNmWtYeRcUfHsGJQpoIuYtRewQas",
    "github-fine": "github_pat_" + "11ABCDEFG0a1b2c3d4e5f6_" + "A1b2C3d4E5" * 5 + "f6g7h8i9j",
    "openai": "sk-proj-" + "Zx9Vb3Nm7Wt5Ye1Rc6Uf4Hs8",
    "anthropic": "sk-ant-" + "api03-Zx9Vb3Nm7Wt5Ye1Rc6Uf4Hs8",
    "aws": "AKIA" + "Q3EGR7ZTX2WPLM5K",
    "google": "AIza" + "SyD3kQ9vX2mB7nL0pR4tW8yZ1aC5eF6gHjK",
    "slack": "xoxb-" + "123456789012-1234567890123-AbCdEfGhIj",
    "hugging-face": "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNm12345678",
    "hugging-face-letters": "hf_" + "IrBTQwJcPqzVXIhsoUSrTkTHZBWjMYmMVk",
    "aws-letters": "AKIA" + "QZEGRXZTXWWPLMSK",
    "key": "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n",
    "key-in-code": "-----BEGIN " + 'RSA PRIVATE KEY-----\\n"\n    "MIIEvQIBADANBgkqhkiG9w0BAQEF',
}
FAKES = {
    "example": "AKIA" + "IOSFODNN7EXAMPLE",
    "xs": "ghp_" + "x" * 36,
    "dots": "sk-ant-" + "api03-Zx9Vb3Nm7Wt5Ye1Rc6U...",
    "words": "sk-proj-" + "your-key-goes-right-here",
    "words-in-camel-case": "hf_" + "YourHuggingFaceTokenGoesRightHere",
    "name": "hf_" + "transformersmodeldownloadcachefolder",
    "github-words": "ghp_" + "YourGitHubPersonalAccessTokenGoesRightHere",
    "short": "hf_" + "abc123",
    "public": "-----BEGIN " + "PUBLIC KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n",
    "named-key": "-----BEGIN " + "PRIVATE KEY-----\n...\n",
    "hash": "sha256:" + "0123456789abcdef" * 4,
    "inside": "xAKIA" + "Q3EGR7ZTX2WPLM5K",
}


@pytest.mark.parametrize("name", TOKENS)
def test_a_live_credential_is_found_and_never_repeated(name):
    text = f"first\n  é = '{TOKENS[name]}'\n"
    report = inspect(workspace({"rollouts/demo/notes.txt": text}))
    [found] = report.findings
    assert (found.code, found.line, found.column) == ("committed-secret", 2, 8)
    assert TOKENS[name][:4] in found.message
    assert TOKENS[name][:6] not in found.message
    assert not report.refused


@pytest.mark.parametrize("name", FAKES)
def test_what_only_looks_like_a_credential_is_not(name):
    assert outer({"rollouts/demo/notes.txt": f"x {FAKES[name]} y\n"}) == []


def test_a_credential_in_a_config_is_not_repeated_by_other_findings():
    token = TOKENS["github"]
    text = EVAL.replace('"OPENAI_API_KEY"', f'"OPENAI_API_KEY", "{token}"') + f"{token} = 1\n"
    report = inspect(workspace({"configs/eval/demo.toml": text}))
    assert {f.code for f in report.findings} >= {"invalid-secret-name", "unknown-key"}
    assert token[4:] not in str(report.findings)


@pytest.mark.parametrize("before", [0, 1, 4095, 4096, 4097, 4150])
@pytest.mark.parametrize("lines", ["x" * 63 + "\n", "x" * 4000 + "\n"])
def test_a_credential_across_blocks_is_found_once_at_its_place(before, lines):
    """The search goes block by block; where one ends must not matter."""
    token = TOKENS["github"]
    for place in (BLOCK - before, 2 * BLOCK - before):
        head = (lines * (place // len(lines) + 1))[: place - 1] + " "
        data = (head + token + " \n" + lines * 3).encode()
        pieces = (data[at : at + 65536] for at in range(0, len(data), 65536))
        [secret] = read_content(pieces).secrets
        assert secret.line == head.count("\n") + 1
        assert secret.column == len(head) - head.rfind("\n")
