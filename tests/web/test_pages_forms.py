"""Forms of the dashboard: secrets that are handed over, refusals that keep what was typed."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from gitsync.web.pages import handed
from tests.web.dashboard import enter, landed, text_of

TOKEN = re.compile(r"gs_[\w-]{43}")


@pytest.fixture
def form(live):
    """The settings of a workspace of one's own."""
    return f"/workspaces/{live.create()['id']}/settings"


def field(answer, name: str) -> str:
    """The tag of the first field of this name."""
    return re.search(f'<input [^>]*name="{name}"[^>]*>', answer.text)[0]


def section(answer, name: str) -> str:
    """What stands under a heading."""
    return answer.text.partition(f'<h2 id="{name}">')[2].partition("</section>")[0]


def theme(browser, answer) -> str:
    """Where the button for the theme leads to from a page."""
    place = unescape(re.search(r'name="next" value="([^"]*)"', answer.text)[1])
    sent = browser.http.post("/theme", data={"theme": "auto", "next": place})
    return sent.headers["location"]


def test_a_new_token_survives_the_theme_and_another_load(live, chief, form):
    made = chief.send(f"{form}/tokens", form_of=form, name="cluster", role="read")
    assert not TOKEN.search(made.text) and not TOKEN.search(str(made.headers))
    page = chief.get(landed(made))
    secret = TOKEN.search(section(page, "tokens"))[0]
    assert secret in chief.get(theme(chief, page)).text
    assert secret in chief.get(form).text
    assert len(live.get(f"{form.removesuffix('/settings')}/tokens")["items"]) == 1


def test_a_secret_is_for_its_page_its_session_and_its_time(live, chief, form, monkeypatch):
    made = chief.send(f"{form}/tokens", form_of=form, name="cluster", role="read")
    assert TOKEN.search(chief.get(landed(made)).text)
    other = f"/workspaces/{live.create()['id']}/settings"
    assert not TOKEN.search(chief.get(other).text)
    assert not TOKEN.search(chief.get("/account").text)
    name = next(n for n in chief.http.cookies if "handed" in n)
    with enter(live) as somebody:
        somebody.http.cookies.set(name, chief.http.cookies[name])
        assert not TOKEN.search(somebody.get(form).text)
        for nonsense in ("x", "gs1.a.b", "gs1.none.AAAA", chief.http.cookies[name][:-9]):
            somebody.http.cookies.set(name, nonsense)
            assert somebody.get(form).status_code == 200
    monkeypatch.setattr(handed, "SHOWN_FOR", timedelta(seconds=-1))
    late = chief.send("/account/tokens", form_of="/account", name="laptop")
    assert not TOKEN.search(chief.get(landed(late)).text)


@pytest.mark.parametrize("word", ["tokens", "members", "disconnect"])
def test_the_theme_leads_from_a_refused_form_to_its_page(chief, form, word):
    refused = chief.send(f"{form}/{word}", form_of=form, name="", role="x", email="x", identity="x")
    assert refused.status_code >= 400
    assert theme(chief, refused) == form


def test_the_theme_leads_from_a_plan_to_its_form(chief, form):
    here = form.removesuffix("/settings")
    starter = f"{here}/templates/minimal-local"
    plan = chief.send(
        f"{here}/changes", form_of=starter, operation="apply", starter="minimal-local"
    )
    assert theme(chief, plan) == starter


def test_a_token_of_a_link_has_no_button_that_loses_it(live):
    user = live.post("/users", {"email": f"link-{live._count}@example.com"}, status=201)
    with enter(live) as browser:
        given = browser.send("/" + user["login_url"].split("/", 3)[3], then="token")
        assert TOKEN.search(given.text) and 'action="/theme"' not in given.text


@pytest.mark.parametrize(
    ("typed", "wrong"),
    [
        ({"default_branch": "two words"}, "default_branch"),
        ({"identity": "noslash"}, "identity"),
        ({"name": "x" * 201}, "name"),
    ],
)
def test_refused_settings_keep_what_was_typed(live, chief, form, typed, wrong):
    live._count += 1
    fields = {
        "name": "Typed name",
        "identity": f"typed-{live._count}--local/rollouts",
        "default_branch": "typed",
        "watch": "all",
        "accept_harbor_native": "yes",
        **typed,
    }
    refused = chief.send(form, **fields)
    assert refused.status_code == 400
    for name in ("name", "identity", "default_branch"):
        assert f'value="{fields[name]}"' in field(refused, name)
        assert ('aria-invalid="true"' in field(refused, name)) is (name == wrong)
    assert f'id="general-{wrong}-wrong"' in refused.text
    assert '<option value="all" selected>' in refused.text
    assert '<option value="yes" selected>accept them' in refused.text
    assert live.get(form.removesuffix("/settings"))["name"] != "Typed name"


def test_refused_members_and_tokens_keep_what_was_typed(chief, form):
    unknown = chief.send(f"{form}/members", form_of=form, email="no@example.com", role="admin")
    said = section(unknown, "members")
    assert 'value="no@example.com" aria-invalid="true"' in said
    assert '<option value="admin" selected>' in said and "no user with this address" in said
    token = chief.send(f"{form}/tokens", form_of=form, name="mine", role="push", days="-1")
    said = section(token, "tokens")
    assert 'value="mine"' in said and 'value="-1" aria-invalid="true"' in said
    assert '<option value="push" selected>' in said
    own = chief.send("/account/tokens", form_of="/account", name="mine", days="-1")
    assert own.status_code == 400
    assert 'value="mine"' in field(own, "name") and 'aria-invalid="true"' in field(own, "days")


def test_a_credential_is_never_sent_back(live, chief):
    connect = {"clone_url": "http://127.0.0.1:9/acme/rollouts.git"}
    live._count += 1
    body = {"name": f"Far {live._count}", "provider": "github", "connect": connect}
    form = f"/workspaces/{live.post('/workspaces', body)['id']}/settings"
    given = {"kind": "password", "username": "robin", "secret": "", "known_hosts": "h k"}
    refused = chief.send(f"{form}/credential", form_of=form, **given)
    said = section(refused, "connection")
    assert 'value="robin"' in said and '<option value="password" selected>' in said
    assert "Give a secret" in said and '<details class="more" open>' in said
    hushed = chief.send(
        f"{form}/credential", form_of=form, **{**given, "kind": "x", "secret": "hush"}
    )
    assert hushed.status_code == 400 and "hush" not in hushed.text
    done = chief.send(f"{form}/credential", form_of=form, **{**given, "secret": "hush"})
    said = section(chief.get(landed(done)), "connection")
    assert "The credential was replaced" in said and "for robin" in said and "hush" not in said


def test_a_new_key_is_shown_with_its_credential(live, chief):
    connect = {"clone_url": "ssh://git@127.0.0.1:9/acme/rollouts.git"}
    live._count += 1
    body = {"name": f"Far {live._count}", "provider": "generic", "connect": connect}
    form = f"/workspaces/{live.post('/workspaces', body)['id']}/settings"
    done = chief.send(f"{form}/credential", form_of=form, kind="ssh")
    assert re.search(r'id="public-key"[^>]*>ssh-ed25519 ', chief.get(landed(done)).text)


def test_a_notice_stands_where_its_form_is(live, chief, form):
    email = f"told-{live._count}@example.com"
    live.user(email)
    done = chief.send(f"{form}/members", form_of=form, email=email, role="member")
    assert done.headers["location"].endswith("#members")
    page = chief.get(landed(done))
    assert "role is set" in section(page, "members") and page.text.count("role is set") == 1
    done = chief.send(f"{form}/suspend", form_of=form)
    assert done.headers["location"].endswith("#end")
    assert "is suspended" in section(chief.get(landed(done)), "end")
    for name in ("members", "tokens", "disconnect"):
        assert re.search(f'action="{form}/{name}#[a-z]+"', page.text), name
    assert text_of(page)
