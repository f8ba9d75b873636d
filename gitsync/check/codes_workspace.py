"""All codes of the workspace checks, and the severity of each."""

from __future__ import annotations

from gitsync.check.codes import Code
from gitsync.check.codes_config import CONFIG_CODES
from gitsync.check.codes_files import FILE_CODES
from gitsync.check.codes_package import PACKAGE_CODES
from gitsync.check.codes_service import SERVICE_CODES
from gitsync.model import Severity

WORKSPACE_CODES: tuple[Code, ...] = (*FILE_CODES, *CONFIG_CODES, *PACKAGE_CODES, *SERVICE_CODES)
SEVERITY: dict[str, Severity] = {c.code: c.severity for c in WORKSPACE_CODES}
