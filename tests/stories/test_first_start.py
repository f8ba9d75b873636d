from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import httpx
import pytest

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


def serve(tmp_path, **env):
    import os

    return subprocess.Popen(
        [sys.executable, "-m", "gitsync", "serve"],
        env={
            **os.environ,
            "GITSYNC_DATA_DIR": str(tmp_path / "data"),
            "GITSYNC_PORT": "0",
            "GITSYNC_CHECK_PROCESSES": "1",
            **env,
        },
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(stream, pattern):
    text = ""
    while not (found := re.search(pattern, text)):
        line = stream.readline()
        assert line, text
        text += line
    return found[1], text


def test_the_first_start_prints_a_link_that_signs_the_administrator_in_once(tmp_path):
    server = serve(tmp_path)
    try:
        url, said = read_until(server.stdout, r"listens on (http://\S+)")
        link = re.search(r"(http://\S+/login/\S+)", said)[1]
        with httpx.Client(trust_env=False, timeout=30) as http:
            page = http.get(link)
            assert page.status_code == 200 and "works once" in page.text
            answer = http.post(link)
            token = re.search(r"(gs_[A-Za-z0-9_-]+)", answer.text)[1]
            assert http.post(link).status_code == 410
            me = http.get(
                f"{url}/api/v1/whoami", headers={"Authorization": f"Bearer {token}"}
            ).json()
            assert me["user"]["is_admin"] is True
    finally:
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=20)
    assert server.returncode == 0, errors
    assert token not in errors
    again = serve(tmp_path)
    try:
        _, said = read_until(again.stdout, r"listens on (http://\S+)")
        assert "/login/" not in said, "only the very first start prints the link"
    finally:
        again.send_signal(signal.SIGTERM)
        again.communicate(timeout=20)


def test_sigterm_ends_a_server_with_waiting_clients_within_fifteen_seconds(tmp_path):
    server = serve(tmp_path)
    try:
        url, said = read_until(server.stdout, r"listens on (http://\S+)")
        link = re.search(r"(http://\S+/login/\S+)", said)[1]
        with httpx.Client(trust_env=False, timeout=30) as http:
            token = re.search(r"(gs_[A-Za-z0-9_-]+)", http.post(link).text)[1]
            headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
            with http.stream("GET", f"{url}/api/v1/events", headers=headers) as stream:
                assert stream.status_code == 200
                begun = time.monotonic()
                server.send_signal(signal.SIGTERM)
                server.wait(timeout=15)
                assert time.monotonic() - begun < 15
    finally:
        server.kill()
        server.communicate(timeout=20)


def test_a_second_server_on_the_same_folder_is_refused(tmp_path):
    server = serve(tmp_path)
    try:
        read_until(server.stdout, r"listens on (http://\S+)")
        second = serve(tmp_path)
        _, errors = second.communicate(timeout=30)
        assert second.returncode != 0
        assert "Another gitsync server uses the data folder" in errors
        assert "Traceback" not in errors
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=20)


def test_wrong_settings_are_all_named_at_once(tmp_path):
    server = serve(
        tmp_path, GITSYNC_PORT="nine", GITSYNC_PUBLIC_URL="ftp://x", GITSYNC_SECRET_KEYS="a"
    )
    _, errors = server.communicate(timeout=30)
    assert server.returncode != 0
    assert "GITSYNC_PORT" in errors and "GITSYNC_PUBLIC_URL" in errors
    assert "Traceback" not in errors
