"""Which of git's checks of incoming objects are tuned down, and why; all others are errors."""

from __future__ import annotations

from collections.abc import Iterable

# Odd authors and dates are harmless, and nobody can change a commit that is there.
LENIENT = (
    "missingEmail", "missingNameBeforeEmail", "missingSpaceBeforeEmail", "missingSpaceBeforeDate",
    "badName", "badEmail", "badDate", "badDateOverflow", "badTimezone", "zeroPaddedDate",
    "missingAuthor", "multipleAuthors", "missingCommitter", "nulInCommit", "badFilemode",
    "zeroPaddedFilemode", "missingTaggerEntry", "badTagName",
)  # fmt: skip
# Dangerous names in trees: a mirror lets them in, so that the inspection can refuse them with a
# path (nothing in it is checked out or served); the embedded host, which people clone, does not.
NAMES = (
    "hasDot", "hasDotdot", "hasDotgit", "fullPathname", "emptyName", "duplicateEntries",
    "gitmodulesUrl", "gitmodulesName", "gitmodulesPath", "gitmodulesSymlink", "gitmodulesParse",
    "gitmodulesBlob", "gitmodulesUpdate", "gitmodulesMissing", "gitmodulesLarge",
    "gitattributesLarge", "gitattributesLineLength", "gitattributesBlob",
)  # fmt: skip


def settings(prefix: str, ids: Iterable[str]) -> list[tuple[str, str]]:
    """Settings that make some of git's object checks warn instead of refuse."""
    return [(f"{prefix}.fsck.{name}", "ignore") for name in ids]
