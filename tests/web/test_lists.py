"""Lists: pieces that stay right while rows are added."""

from __future__ import annotations

import pytest

from tests.live import GOOD_MAIN, workspace_files


def pages(live, path: str, **params):
    after, found = None, []
    while True:
        page = live.get(path, params=params | ({"after": after} if after else {}))
        assert set(page) == {"items", "total_count", "has_more", "next"}
        assert page["has_more"] == (page["next"] is not None)
        found += page["items"]
        after = page["next"]
        if after is None:
            return found, page["total_count"]


def test_pieces_of_a_growing_list_neither_skip_nor_repeat(live):
    workspace = live.create()
    path = f"/workspaces/{workspace['id']}"
    for _ in range(7):
        live.post(f"{path}/sync", status=202)
    seen, after = [], None
    for _ in range(20):
        page = live.get(f"{path}/syncs", params={"limit": 3} | ({"after": after} if after else {}))
        seen += [item["id"] for item in page["items"]]
        live.post(f"{path}/sync", status=202)  # newer ones come while we read
        after = page["next"]
        if after is None:
            break
    assert len(seen) == len(set(seen)) == 8  # the first sync and seven more
    assert seen == sorted(seen, reverse=True)
    assert live.get(f"{path}/syncs")["total_count"] > 8


def test_workspaces_are_listed_whole_in_pieces(live):
    made = {live.create()["id"] for _ in range(5)}
    found, total = pages(live, "/workspaces", limit=2)
    ids = [item["id"] for item in found]
    assert made <= set(ids) and ids == sorted(ids) and len(ids) == total


def test_a_member_lists_only_their_workspaces(live, crowd, published):
    token = crowd.tokens["reader"]
    page = live.get("/workspaces", token=token)
    assert [item["id"] for item in page["items"]] == [published.workspace["id"]]
    assert page["total_count"] == 1
    hidden = live.create()
    named = live.get("/workspaces", token=token, params={"name": hidden["name"]})
    assert named["items"] == [] and named["total_count"] == 0


def test_a_workspace_is_found_by_identity_or_name_whatever_their_case(live):
    made = live.create("Blue Team", identity="Blue--Team/Rollouts")
    for params in ({"identity": "blue--team/ROLLOUTS"}, {"name": "BLUE team"}):
        (item,) = live.get("/workspaces", params=params)["items"]
        assert item["id"] == made["id"]


@pytest.mark.parametrize("after", ["abc", "-1", "1.5", "١", "9" * 19])
def test_a_cursor_that_was_never_given_is_refused(live, published, after):
    answer = live.call("GET", f"{published.path}/syncs", params={"after": after})
    assert answer.status_code == 400 and answer.json()["field"] == "after"


def test_versions_are_listed_newest_first_and_by_branch(live, published):
    found, total = pages(live, f"{published.path}/versions", limit=1)
    assert [v["commit_sha"] for v in found] == [published.bad, published.good] and total == 2
    assert found[0]["parents"] == [published.good] and found[0]["branches"] == ["main"]
    assert found[0]["author"]["name"] == "Robin Tester" and found[0]["message"] == "Second\n"
    none, total = pages(live, f"{published.path}/versions", branch="other")
    assert (none, total) == ([], 0)


def test_a_rollout_shows_its_history(live, published):
    path = f"{published.path}/rollouts/alpha"
    shown = live.get(path, params={"limit": 1})
    assert shown["served"]["digest"] == published.digest
    assert shown["history"]["total_count"] == 2 and shown["history"]["has_more"]
    following = live.get(path, params={"limit": 1, "after": shown["history"]["next"]})
    shas = [p["history"]["items"][0]["commit_sha"] for p in (shown, following)]
    assert shas == [published.bad, published.good]
    assert live.call("GET", f"{published.path}/rollouts/none").status_code == 404


def test_the_catalogue_names_the_last_good_version(live, published):
    found = live.get(f"{published.path}/rollouts")
    alpha, beta = found["items"]
    assert (alpha["name"], beta["name"]) == ("alpha", "beta")
    assert alpha["entrypoints"][0]["last_good"]["commit_sha"] == published.bad
    assert beta["verdict"] == "error"
    assert beta["entrypoints"][0]["last_good"]["commit_sha"] == published.good
    assert beta["entrypoints"][0]["findings"][0]["code"] == "no-grader"


def test_an_empty_workspace_has_empty_lists(live):
    path = f"/workspaces/{live.create()['id']}"
    for name in ("versions", "rollouts", "deliveries"):
        page = live.get(f"{path}/{name}")
        assert page == {"items": [], "total_count": 0, "has_more": False, "next": None}
    assert live.call("GET", f"{path}/rollouts?branch=main").status_code == 404


@pytest.mark.slow
def test_a_thousand_rollouts_are_listed_at_once(live):
    import time

    workspace = live.create()
    checkout = live.checkout(workspace)
    names = {f"r{n:04d}": GOOD_MAIN for n in range(1000)}
    sha = checkout.commit(workspace_files(**names))
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, sha, wait=60)["state"].startswith("published")
    path = f"/workspaces/{workspace['id']}"
    for place in (f"{path}/rollouts", f"{path}/versions/{sha}"):
        live.get(place)
        begin = time.process_time()
        live.get(place)
        assert time.process_time() - begin < 2.0, place
