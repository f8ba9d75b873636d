"""Data sets and secrets on the dashboard, without a browser."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from tests.runs.kit import ROWS, Team, make_team
from tests.web.dashboard import HOSTILE, counted, enter, text_of

SECRET = "sk-never-on-any-page-81"


@pytest.fixture(scope="module")
def team(live) -> Team:
    return make_team(live)


@pytest.fixture(scope="module")
def owner(live, team):
    with enter(live) as browser:
        yield browser


def upload(team: Team, name: str, content: str, *, complete: bool = True) -> dict:
    """Any content, to whatever end it comes."""
    data = content.encode()
    body = {"name": name, "format": "jsonl", "size": len(data)}
    made = team.live.call("POST", f"{team.path}/datasets", token=team.token, json=body).json()
    if not complete:
        return made["dataset"]
    put = httpx.put(made["parts"][0]["url"], content=data, trust_env=False, verify=False)
    assert put.status_code < 300
    here = f"{team.path}/datasets/{made['dataset']['id']}"
    team.live.call("POST", f"{here}/complete", token=team.token, json={})
    for _ in range(200):
        found = team.live.get(here)
        if found["state"] not in ("pending", "uploading", "processing"):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_data_sets_are_listed_and_shown_with_their_first_rows(team, owner):
    said = text_of(owner.get(f"{team.path}/datasets"))
    assert "1 data set" in said and "sums" in said and "Ready" in said and "Robin" in said
    assert f"gitsync dataset upload data/NAME.jsonl -w {team.workspace['identity']}" in said
    answer = owner.get(f"{team.path}/datasets/sums")
    said = text_of(answer)
    for word in ("user_prompt", "ground_truth", "0+0?", "5+5?", "6 of 6", "Ready: 6 rows"):
        assert word in said, word
    found = owner.get(f"{team.path}/datasets/sums/content")
    assert found.text == ROWS and found.headers["content-disposition"].startswith("attachment")


def test_a_workspace_without_data_teaches_how_to_upload(live, owner):
    here = f"/workspaces/{live.create()['id']}"
    assert "gitsync dataset upload data/NAME.jsonl -w" in text_of(owner.get(f"{here}/datasets"))
    assert "gitsync secret set OPENAI_API_KEY -w" in text_of(owner.get(f"{here}/secrets"))


def test_hostile_rows_and_names_are_escaped(team, owner):
    name = "<b>x</b> #1 %2F?&'\"".replace("/", "|")
    row = {"user_prompt": f"{HOSTILE}</td>", "ground_truth": "a\nb", f"<i>{HOSTILE}": {"a": [1]}}
    found = upload(team, name, f"{json.dumps(row)}\n" * 5)
    assert found["state"] == "uploaded", found
    pages = [owner.get(f"{team.path}/datasets")]
    link = pages[0].text.partition('<td class="breaks main"><a href="')[2].partition('"')[0]
    pages.append(owner.get(link))
    assert "{&#34;a&#34;: [1]}" in pages[1].text and pages[1].status_code == 200
    for answer in pages:
        for bad in ("<img src=x", "<b>x", "<i>", "\u202e"):
            assert bad not in answer.text, bad


def test_a_refused_file_says_why_and_is_dismissed(team, owner):
    upload(team, "broken", '{"user_prompt": "x"}\n')
    said = text_of(owner.get(f"{team.path}/datasets/broken"))
    assert "Refused: no run can use it." in said and "--overwrite" in said
    found = team.live.get(f"{team.path}/datasets/broken")
    assert found["error"]["message"].partition("(")[0].strip("` ")[:20] in said
    here = f"{team.path}/datasets/{found['id']}"
    assert owner.send(f"{here}/abort", form_of=here).status_code == 303
    assert "broken" not in text_of(owner.get(f"{team.path}/datasets"))
    assert "Cancelled." in text_of(owner.get(here))


def test_an_open_upload_says_so_and_is_deleted(team, owner):
    upload(team, "later", ROWS, complete=False)
    here = f"{team.path}/datasets/later"
    assert "The upload is not complete." in text_of(owner.get(here))
    assert owner.http.post(f"{here}/delete", data={"csrf": "x"}).status_code == 403
    answer = owner.send(f"{here}/delete", form_of=here)
    assert answer.status_code == 303
    assert "The data set was deleted." in text_of(owner.get(answer.headers["location"]))
    assert owner.get(here).status_code == 404


def test_a_reader_sees_data_and_changes_nothing(live, team):
    live._count += 1
    email = f"reads-{live._count}@example.com"
    with enter(live, email, is_admin=False) as reader:
        assert reader.get(f"{team.path}/datasets").status_code == 404
        live.call("PUT", f"{team.path}/members/{email}", json={"role": "reader"})
        page = reader.get(f"{team.path}/datasets/sums")
        assert page.status_code == 200 and "Delete" not in page.text
        assert "Set a secret" not in reader.get(f"{team.path}/secrets").text
        for path in ("datasets/sums/delete", "secrets", "secrets/delete"):
            answer = reader.send(f"{team.path}/{path}", form_of=f"{team.path}/datasets/sums")
            assert answer.status_code == 403, path
        live.call("PUT", f"{team.path}/members/{email}", json={"role": "member"})
        given = {"name": "KEY", "value": SECRET, "scope": "workspace"}
        refused = reader.send(f"{team.path}/secrets", **given)
        assert refused.status_code == 403 and "needs the role admin" in text_of(refused)
        assert SECRET not in refused.text


def test_secrets_are_set_and_deleted_and_never_shown(team, owner):
    here = f"{team.path}/secrets"
    for scope in ("workspace", "user"):
        answer = owner.send(here, name="API_KEY", value=SECRET, scope=scope)
        assert answer.status_code == 303
    page = owner.get(answer.headers["location"])
    said = text_of(page)
    assert "2 secrets" in said and "The secret is set." in said and SECRET not in page.text
    assert "wins over the workspace's" in said and "hidden from your runs" in said
    for wrong in ({"name": "no good"}, {"value": ""}, {"scope": "everybody"}):
        given = {"name": "API_KEY", "value": SECRET, "scope": "user", **wrong}
        refused = owner.send(here, **given)
        assert refused.status_code == 400 and SECRET not in refused.text
        assert "Nothing was changed." in text_of(refused)
    assert owner.http.post(here, data={"name": "B", "value": "x"}).status_code == 403
    gone = owner.send(f"{here}/delete", form_of="/account", name="API_KEY", scope="workspace")
    assert gone.status_code == 303
    assert [s["scope"] for s in team.live.get(here)["items"]] == []  # the other one is personal
    assert "1 secret" in text_of(owner.get(here))


def test_spaces_of_a_value_are_kept(team, owner):
    here = f"{team.path}/secrets"
    owner.send(here, name="OPENAI_API_KEY", value=" spaced ", scope="workspace")
    body = team.body()
    body["secrets"] = {"required": ["OPENAI_API_KEY"]}
    team.submit(body=body)
    claim = team.executor().claim()
    assert claim["secrets"] == {"OPENAI_API_KEY": " spaced "}
    team.stop_all()


def test_many_data_sets_cost_no_more_statements(team, owner):
    def cost(path: str) -> int:
        owner.get(path)
        with counted() as statements:
            assert owner.get(path).status_code == 200
        return len([s for s in statements if s.lstrip().upper().startswith("SELECT")])

    paths = [f"{team.path}/datasets", f"{team.path}/datasets/sums", f"{team.path}/secrets"]
    before = [cost(path) for path in paths]
    for n in range(5):
        upload(team, f"more-{n}", ROWS, complete=False)
        owner.send(f"{team.path}/secrets", name=f"MORE_{n}", value="x", scope="user")
    assert [cost(path) for path in paths] == before
    assert max(before) <= 10
