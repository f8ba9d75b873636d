"""The vendored entrypoint corpus, judged as section 10 of its specification says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gitsync.check.python import check_entrypoint
from gitsync.model import CheckOptions
from tests.check.folder import Folder

CORPUS = Path(__file__).parents[1] / "corpus" / "entrypoints"
CASES = sorted(p.name for p in CORPUS.iterdir() if (p / "expected.json").is_file())


def on_disk(name: str, tmp_path: Path) -> tuple[Path, dict]:
    """The case with its links made."""
    expected = json.loads((CORPUS / name / "expected.json").read_text())
    folder = tmp_path / "case"
    shutil.copytree(CORPUS / name, folder)
    for path, target in expected.get("symlinks", {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(target)
    return folder, expected


@pytest.mark.parametrize("name", CASES)
def test_the_corpus_case_gets_its_answer(name: str, tmp_path: Path) -> None:
    folder, expected = on_disk(name, tmp_path)
    report = check_entrypoint(
        Folder(folder),
        expected["rollout"],
        expected["entrypoint"],
        options=CheckOptions(**expected.get("options", {})),
    )
    if "canary" in expected:
        assert not (folder / expected["canary"]).exists()
    said = [f.message for f in report.findings]
    assert report.verdict.value in expected["accept"], said
    codes = sorted({f.code for f in report.findings})
    if report.verdict.value == expected["verdict"]:
        assert codes == expected["codes"], said
        for role in ("workflow", "grader"):
            if expected["verdict"] != "unresolvable" or expected[role]:
                assert getattr(report, role) == expected[role], said
    elif report.verdict.value == "unresolvable":
        assert "unresolvable" in codes
    else:
        assert not [f for f in report.findings if f.severity == "error"]
    assert list(report.findings) == sorted(report.findings, key=lambda f: f.order)
