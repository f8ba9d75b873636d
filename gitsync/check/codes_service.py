"""The codes of refused commits, of suppression, of our own failures, and the hints at push."""

from __future__ import annotations

from gitsync.check.codes import Code
from gitsync.model import Severity

_E, _W, _H = Severity.ERROR, Severity.WARNING, Severity.HINT
_R, _X, _V = "refusal", "checker", "service"

SERVICE_CODES: tuple[Code, ...] = (
    Code(
        "unsafe-name",
        _E,
        _R,
        "A name climbs out of its folder or cannot be written safely.",
        "Names such as `..`, spellings of `.git`, or bytes that are no UTF-8 harm those who clone "
        "or unpack a version. The commit is refused.",
        "..\\\\..\\\\evil.txt",
        "Rename the file.",
    ),
    Code(
        "duplicate-entry",
        _E,
        _R,
        "A folder holds one name twice.",
        "Readers disagree which of the two counts. The commit is refused.",
        "main.py, main.py",
        "Write the commit anew with an ordinary Git client.",
    ),
    Code(
        "odd-mode",
        _E,
        _R,
        "An entry has a mode that Git does not use.",
        "It is unclear what the entry is. The commit is refused.",
        "mode 130000",
        "Write the commit anew with an ordinary Git client.",
    ),
    Code(
        "too-many-files",
        _E,
        _R,
        "The commit has too many files.",
        "It could not be checked or copied in reasonable time. The commit is refused.",
        "data/many: 100,000 files",
        "Pack collections into one data file.",
    ),
    Code(
        "too-deep",
        _E,
        _R,
        "Folders nest too deep, or a path is too long.",
        "Many systems cannot write such paths. The commit is refused.",
        "d/d/d/d/… 5000 times",
        "Flatten the folders.",
    ),
    Code(
        "file-over-limit",
        _E,
        _R,
        "A file that is no data set has more than 256 MiB.",
        "Every version would carry it. The commit is refused.",
        "data/zeros.bin: 512 MiB",
        "Store it elsewhere, or upload it as a data set.",
    ),
    Code(
        "tree-too-large",
        _E,
        _R,
        "The files that are no data sets have more than 1 GiB together.",
        "Every version would carry them. The commit is refused.",
        "400 files of 4 MiB",
        "Store large files elsewhere.",
    ),
    Code(
        "check-failed",
        Severity.UNRESOLVED,
        _X,
        "A part could not be checked.",
        "The checker itself failed there. Nothing is known to be wrong, and nothing is known to "
        "be right either.",
        "(a bug of the checker)",
        "Report it to the operator of the service.",
    ),
    Code(
        "unused-suppression",
        _H,
        _X,
        "Something is ignored that is not there.",
        "The reason for the mark is gone, or the code is misspelt or an error. A stale mark hides "
        "the next finding.",
        "x = 1  # gitsync: ignore[dead-link]",
        "x = 1",
    ),
    Code(
        "missing-twin",
        _H,
        _V,
        "A rollout has an evaluation config but no training config, or the reverse.",
        "Measure what you train: most rollouts need both.",
        "configs/eval/demo.toml only",
        "Add configs/training/demo.toml.",
    ),
    Code(
        "unknown-dataset",
        _H,
        _V,
        "The workspace has no data set of this name.",
        "The run would not find its rows.",
        'dataset = "sums"',
        "osmosis dataset upload data/sums.jsonl",
    ),
    Code(
        "sandbox-key-missing",
        _H,
        _V,
        "A Harbor rollout has no key for a sandbox.",
        "Without `OPENSANDBOX_API_KEY` or `DAYTONA_API_KEY` it needs Docker, which managed runs "
        "do not have.",
        "required = []",
        'required = ["DAYTONA_API_KEY"]',
    ),
    Code(
        "server-overload",
        _H,
        _V,
        "An evaluation sends more at once than the server takes.",
        "Rows wait in the rollout server until they time out.",
        "batch_size = 256  # max_concurrent=4",
        "batch_size = 32",
    ),
)
