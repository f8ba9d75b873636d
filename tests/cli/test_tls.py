"""A server with a certificate of a private authority: API and Git alike."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.cli.kit import IDENTITY, TOKEN, WORKSPACE, Stage, git, gitsync, serving

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


def authority(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate for 127.0.0.1, and a server's context with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gitsync test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    bundle, private = folder / "ca dir.pem", folder / "key.pem"
    bundle.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle, private)
    return bundle, context


def test_a_private_authority_is_trusted_when_named(stage: Stage, tmp_path: Path) -> None:
    bundle, context = authority(tmp_path)
    with serving(stage.repos, tls=context) as secure:
        env = {"GITSYNC_SERVER": secure.url, "GITSYNC_TOKEN": TOKEN}
        stranger = gitsync("clone", IDENTITY, "w", "--json", cwd=tmp_path, env=env)
        assert (stranger.code, stranger.error["code"]) == (6, "SERVER_UNREACHABLE")
        assert "certificate" in stranger.error["message"].lower()
        env["GITSYNC_CA_BUNDLE"] = str(bundle)
        ran = gitsync("clone", IDENTITY, "w", "--json", cwd=tmp_path, env=env)
        assert ran.code == 0, ran.err
        work = tmp_path / "w"
        git("commit", "-q", "--allow-empty", "-m", "x", cwd=work)
        git("push", cwd=work)
        sha = git("rev-parse", "HEAD", cwd=work).strip()
        answer = {"commit_sha": sha, "state": "published", "live": True}
        secure.on(f"GET workspaces/{WORKSPACE}/commits/{sha}", 200, answer)
        assert gitsync("status", cwd=work).code == 0
        assert "OSMOSIS_ALLOW_INSECURE" not in (work / ".env").read_text()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_bundle_that_is_none_is_named(tmp_path: Path, content: str | None) -> None:
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_text(content)
    env = {
        "GITSYNC_SERVER": "https://127.0.0.1:1",
        "GITSYNC_TOKEN": TOKEN,
        "GITSYNC_CA_BUNDLE": str(bundle),
    }
    ran = gitsync("token", "list", "--json", cwd=tmp_path, env=env)
    assert (ran.code, ran.error["code"]) == (1, "CONFIG") and "bundle.pem" in ran.error["message"]
