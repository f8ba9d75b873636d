"""Approves a device as a person with a browser does: `python -m tests.web.approve URL EMAIL CODE`.

The password comes from the environment (`APPROVE_PASSWORD`), as arguments are seen by everybody.
"""

from __future__ import annotations

import os
import sys

from tests.web.browser import Browser


def main(url: str, email: str, code: str) -> None:
    page = f"/device?code={code}"
    with Browser(url) as browser:
        asked = browser.get(page)
        assert asked.status_code == 303, asked.text  # nobody is signed in yet
        password = os.environ["APPROVE_PASSWORD"]
        where = asked.headers["location"]
        done = browser.send("/signin", form_of=where, email=email, password=password)
        assert (done.status_code, done.headers["location"]) == (303, page), done.text
        said = browser.send("/device", form_of=page, answer="approve")
        assert said.status_code == 200, said.text


if __name__ == "__main__":
    main(*sys.argv[1:])
