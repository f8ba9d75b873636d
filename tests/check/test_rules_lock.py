"""A lock is stale if it says something else, and not if uv says the same in its own words."""

from __future__ import annotations

import pytest

from tests.check.test_rules_package import LOCK, PY, depends, python
from tests.check.trees import Content, outer

STALE = ["lock-stale rollouts/demo/uv.lock:1"]
# What the project says, and what uv 0.13 writes for it into `requires-dist`.
REWRITTEN = {
    "w; python_version > '3.11'": """{ name = "w", marker = "python_full_version >= '3.12'" }""",
    "a; python_version != '3.12'": """{ name = "a", marker = "python_full_version != '3.12.*'" }""",
    "a; (sys_platform == 'win32' and python_version >= '3.13') or os_name == 'nt'": (
        "{ name = \"a\", marker = \"(python_full_version >= '3.13' and sys_platform == 'win32') "
        "or os_name == 'nt'\" }"
    ),
    "a; platform_system == 'Linux'": """{ name = "a", marker = "sys_platform == 'linux'" }""",
    "a; platform_system != 'Windows'": """{ name = "a", marker = "sys_platform != 'win32'" }""",
    "a; sys_platform == 'darwin' and platform_system == 'Darwin'": (
        """{ name = "a", marker = "sys_platform == 'darwin'" }"""
    ),
    "a; platform_system == 'Linux' and sys_platform == 'win32'": (
        """{ name = "a", marker = "python_version < '0'" }"""
    ),
    "a; os_name == 'posix' and sys_platform == 'win32'": (
        """{ name = "a", marker = "python_version < '0'" }"""
    ),
    "a; os_name == 'nt' and platform_system != 'Linux'": (
        """{ name = "a", marker = "os_name == 'nt'" }"""
    ),
    "a; 'linux' in sys_platform": """{ name = "a", marker = "'linux' in sys_platform" }""",
    "t >=1; python_version >= '3.13'": (
        """{ name = "t", marker = "python_full_version >= '3.13' and os_name == 'nt'", """
        """path = "a" }, """
        """{ name = "t", marker = "python_full_version >= '3.13' and os_name != 'nt'", """
        """specifier = ">=1" }"""
    ),
    "both": (
        """{ name = "both", marker = "os_name == 'nt'", directory = "a" }, """
        """{ name = "both", marker = "os_name != 'nt'", directory = "b" }"""
    ),
    "Mylib [x] >=1": '{ name = "mylib", extras = ["x"], directory = "mylib" }',
    "a @ https://x.example/a-1.whl#sha256=00": (
        '{ name = "a", url = "https://x.example/a-1.whl" }'
    ),
    "a @ https://me:word@x.example/a-1.whl": '{ name = "a", url = "https://x.example/a-1.whl" }',
    "a @ git+https://x.example/a": '{ name = "a", git = "https://x.example/a" }',
    "a @ git+ssh://git@x.example/a@v/1": '{ name = "a", git = "ssh://git@x.example/a?rev=v/1" }',
    "a @ git+https://x.example/a@v1#subdirectory=b": (
        '{ name = "a", git = "https://x.example/a?subdirectory=b&rev=v1" }'
    ),
    "a @ file:///a": '{ name = "a", directory = "/a" }',
    "certifi >= 2022.01.01, != v2023": ('{ name = "certifi", specifier = ">=2022.1.1,!=2023" }'),
    "zipp >= 3.1-1": '{ name = "zipp", specifier = ">=3.1.post1" }',
    "a == 01.0.*": '{ name = "a", specifier = "==1.0.*" }',
    "six ~= 1.16": '{ name = "six", specifier = "~=1.16" }',
}
DIFFERENT = {
    "w; python_version > '3.12'": """{ name = "w", marker = "python_full_version >= '3.12'" }""",
    "a; sys_platform == 'linux'": """{ name = "a", marker = "sys_platform == 'win32'" }""",
    "a; platform_system == 'Linux'": """{ name = "a", marker = "sys_platform == 'darwin'" }""",
    "a; platform_system != 'Linux'": """{ name = "a", marker = "sys_platform == 'linux'" }""",
    "a; platform_system == 'iOS'": """{ name = "a", marker = "sys_platform == 'win32'" }""",
    "a; platform_system == 'FreeBSD'": '{ name = "a" }',
    "a; os_name == 'nt'": """{ name = "a", marker = "sys_platform == 'win32'" }""",
    "a; python_version < '3.13' and os_name == 'nt'": (
        """{ name = "a", marker = "python_full_version < '3.13' or os_name == 'nt'" }"""
    ),
    "a; platform_machine == 'x'": '{ name = "a" }',
    "mylib >=1": '{ name = "mylib", extras = ["x"], directory = "mylib" }',
    "a == 1.0.*": '{ name = "a", specifier = "==1.*" }',
    "both": (
        """{ name = "both", marker = "os_name == 'nt'", directory = "a" }, """
        """{ name = "both", marker = "os_name == 'posix'", directory = "b" }"""
    ),
    "a @ https://x.example/a-2.whl": '{ name = "a", url = "https://x.example/a-1.whl" }',
    "a @ https://x.example/a.whl": '{ name = "a", specifier = ">=1" }',
    "a == 1": '{ name = "a", url = "https://x.example/a-1.whl" }',
    "a @ git+https://x.example/a@v2": '{ name = "a", git = "https://x.example/a?rev=v1" }',
    "a @ git+https://x.example/a": '{ name = "a", git = "https://x.example/a?rev=v1" }',
    "a ~= 1.0": '{ name = "a", specifier = "~=1.0.0" }',
    "six >= 1.16": '{ name = "six", specifier = "~=1.16" }',
}


def locked(requirement: str, entry: str) -> list[str]:
    files: dict[str, Content] = {
        PY: depends('"osmosis-ai[server]>=0.3.8,<0.4"', f'"{requirement}"'),
        "rollouts/demo/uv.lock": LOCK.replace('<0.4" }]', f'<0.4" }}, {entry}]'),
    }
    return outer(files)


@pytest.mark.parametrize("requirement", REWRITTEN)
def test_a_requirement_that_uv_wrote_in_its_own_words_is_not_stale(requirement):
    assert locked(requirement, REWRITTEN[requirement]) == []


@pytest.mark.parametrize("requirement", DIFFERENT)
def test_a_requirement_that_means_something_else_is_stale(requirement):
    assert STALE[0] in locked(requirement, DIFFERENT[requirement])


def test_a_source_of_uv_may_be_anything():
    entry = '{ name = "a", git = "https://x.example/a?tag=v1" }'
    files: dict[str, Content] = {
        PY: depends('"osmosis-ai[server]>=0.3.8,<0.4"', '"A>=1"')
        + '[tool.uv.sources]\nA = { git = "https://x.example/a", tag = "v1" }\n',
        "rollouts/demo/uv.lock": LOCK.replace('<0.4" }]', f'<0.4" }}, {entry}]'),
    }
    assert outer(files) == []


def test_a_large_lock_is_read():
    filler = "".join(f'[[package]]\nname = "p{n}"\nnote = "{"x" * 1000}"\n' for n in range(2500))
    assert outer({"rollouts/demo/uv.lock": LOCK.replace('"demo"', '"other"') + filler}) == STALE


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("~=3.12", ">=3.12, <4", []),
        ("~=3.12.0", "==3.12.*", []),
        (">=3.12.0", ">=3.12", []),
        (">=3.12,>=3.12.1", ">=3.12.1", []),
        (">=3.12", ">=3.12, <4", STALE),
        (">=3.12", ">=3.12.1", STALE),
        ("~=3.12.0", "~=3.12", STALE),
    ],
)
def test_versions_of_python_are_compared_by_what_they_admit(ours, theirs, expected):
    files: dict[str, Content] = {
        PY: python(ours),
        "rollouts/demo/uv.lock": LOCK.replace('">=3.12"', f'"{theirs}"'),
    }
    assert outer(files) == expected
