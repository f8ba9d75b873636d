"""The finding codes of the entrypoint check, explained for the author of a rollout."""

from __future__ import annotations

from gitsync.check.codes import Code
from gitsync.model import Severity

_E, _U, _W = Severity.ERROR, Severity.UNRESOLVED, Severity.WARNING


def _code(code: str, severity: Severity, summary: str, why: str, example: str, fix: str) -> Code:
    return Code(code, severity, "entrypoint", summary, why, example, fix)


ENTRYPOINT_CODES: tuple[Code, ...] = (
    _code(
        "rollout-missing",
        _E,
        "A config names a rollout folder that the commit does not have.",
        "Evaluation and training look for rollouts/<name>. Without the folder there is nothing to "
        "start, so every run of this config would fail.",
        '[experiment]\nrollout = "chess"   # but there is only rollouts/chess-bot',
        '[experiment]\nrollout = "chess-bot"',
    ),
    _code(
        "entrypoint-outside-rollout",
        _E,
        "The entrypoint leads out of its rollout folder.",
        "A code version holds each rollout on its own. A file elsewhere would not be there "
        "when the "
        "rollout runs, so absolute paths, `..` and links that leave the folder are refused.",
        'entrypoint = "../other/main.py"',
        'entrypoint = "main.py"   # and let main.py import what it shares',
    ),
    _code(
        "entrypoint-not-python",
        _E,
        "The entrypoint is no .py file.",
        "The rollout server is a Python module; discovery imports it by its path.",
        'entrypoint = "start.sh"',
        'entrypoint = "main.py"',
    ),
    _code(
        "entrypoint-missing",
        _E,
        "The entrypoint file does not exist in the commit.",
        "The name may be misspelt, the file not committed, a folder, or a link whose target is not "
        "in the repository.",
        'entrypoint = "main.py"   # the folder has server.py',
        'entrypoint = "server.py"',
    ),
    _code(
        "syntax-error",
        _E,
        "A file that the import executes is no valid Python.",
        "Importing the entrypoint stops at this file. It need not be the entrypoint itself: any "
        "module it imports counts.",
        "class Score(Grader)\n    ...",
        "class Score(Grader):\n    ...",
    ),
    _code(
        "too-complex",
        _E,
        "Python's own parser or compiler gives up on the file.",
        "An expression or block nests deeper than the interpreter can follow, usually in generated "
        "code. Importing it raises RecursionError or MemoryError.",
        "TOTAL = 1 + 1 + 1 + …   # thousands of terms",
        "TOTAL = sum(VALUES)",
    ),
    _code(
        "import-error",
        _E,
        "Importing the entrypoint certainly raises an exception.",
        "The statement named here fails in every environment: a name or module that does not "
        "exist, "
        "a class that cannot be built, or an explicit exit.",
        "from tools.search import find   # tools has no module search",
        "from tools.lookup import find",
    ),
    _code(
        "source-limit",
        _U,
        "A limit was reached before the answer was known.",
        "The check reads a bounded amount of code in a bounded time. Beyond that it says so "
        "instead "
        "of guessing, and the rollout is not runnable.",
        "WORDS = [...]   # a data table of several megabytes in a .py file",
        "Move the table into a data file and read it at run time.",
    ),
    _code(
        "no-workflow",
        _E,
        "The entrypoint exposes no AgentWorkflow class.",
        "The platform looks for the one workflow class bound to a name in the entrypoint. A class "
        "inside a function, behind a module attribute, under the script guard or named in a string "
        "is not seen.",
        "import flows\n\nbackend = LocalBackend(workflow=flows.ChessFlow, grader=Score)",
        "from flows import ChessFlow\n\nbackend = LocalBackend(workflow=ChessFlow, grader=Score)",
    ),
    _code(
        "no-grader",
        _E,
        "The entrypoint exposes no Grader class.",
        "Without a grader no reward reaches training, even though a backend can be built without "
        "one.",
        "backend = LocalBackend(workflow=ChessFlow)",
        "from marks import ChessScore\n\n"
        "backend = LocalBackend(workflow=ChessFlow, grader=ChessScore)",
    ),
    _code(
        "abstract-workflow",
        _E,
        "Only abstract AgentWorkflow classes are exposed.",
        "A class that does not implement every abstract method when its class statement ends "
        "cannot "
        "be instantiated. Assigning the method afterwards does not help.",
        "class ChessFlow(AgentWorkflow):\n    async def execute(self, ctx): ...",
        "class ChessFlow(AgentWorkflow):\n    async def run(self, ctx): ...",
    ),
    _code(
        "abstract-grader",
        _E,
        "Only abstract Grader classes are exposed.",
        "A grader must implement grade, and every other abstract method of its bases.",
        "class ChessScore(Grader):\n    async def score(self, ctx): ...",
        "class ChessScore(Grader):\n    async def grade(self, ctx): ...",
    ),
    _code(
        "multiple-workflows",
        _E,
        "The entrypoint exposes two or more AgentWorkflow classes.",
        "A code version means one workflow. Every class object bound in the entrypoint counts, "
        "imported ones too; aliases of one class count once.",
        "from common import PlainFlow\n\nclass LoudFlow(PlainFlow): ...",
        "import common\n\nclass LoudFlow(common.PlainFlow): ...",
    ),
    _code(
        "multiple-graders",
        _E,
        "The entrypoint exposes two or more Grader classes.",
        "A code version means one grader. Keep the others in a module and import that module.",
        "from marks import Exact, Fuzzy",
        "from marks import Exact",
    ),
    _code(
        "run-not-async",
        _E,
        "run is no coroutine function.",
        "The backend awaits run(ctx). A plain function, even one that returns an awaitable, and an "
        "async generator are refused.",
        "def run(self, ctx):\n    return []",
        "async def run(self, ctx):\n    return []",
    ),
    _code(
        "grade-not-async",
        _E,
        "grade is no coroutine function.",
        "The backend awaits grade(ctx).",
        "def grade(self, ctx):\n    ctx.set_reward(1.0)",
        "async def grade(self, ctx):\n    ctx.set_reward(1.0)",
    ),
    _code(
        "bad-signature",
        _E,
        "run or grade cannot be called with the context alone.",
        "The backend passes exactly one argument. Further parameters need defaults.",
        "async def grade(self, ctx, rubric): ...",
        "async def grade(self, ctx, rubric=None): ...",
    ),
    _code(
        "bad-init",
        _E,
        "The constructor cannot be called with the config alone.",
        "The backend constructs the class with one positional argument, the config or None.",
        "def __init__(self): ...",
        "def __init__(self, config=None):\n    super().__init__(config)",
    ),
    _code(
        "bad-component-reference",
        _E,
        "A string given to a backend names nothing that can be loaded.",
        "Backends resolve strings of the form module:Class when they start. This one fails there, "
        "long after the push.",
        'LocalBackend(workflow="flows.ChessFlow", grader=ChessScore)',
        "LocalBackend(workflow=ChessFlow, grader=ChessScore)",
    ),
    _code(
        "bad-pyproject",
        _E,
        "The rollout's pyproject.toml is no valid TOML.",
        "No environment can be built for the rollout, so it cannot run.",
        '[project\nname = "chess"',
        '[project]\nname = "chess"',
    ),
    _code(
        "unresolvable",
        _U,
        "Which class is exposed cannot be known without running the code.",
        "A condition, a dynamic import or a value from elsewhere decides it. The check neither "
        "guesses nor executes anything, so the rollout is published as not runnable.",
        'Flow = importlib.import_module(os.environ["FLOW"]).Flow',
        "from flows import Flow",
    ),
    _code(
        "missing-pyproject",
        _W,
        "The rollout folder has no pyproject.toml.",
        "Without declared dependencies the rollout runs in whatever environment happens to be "
        "there.",
        "rollouts/chess/main.py   # and nothing else",
        "Add rollouts/chess/pyproject.toml with name, version and dependencies.",
    ),
    _code(
        "undeclared-dependency",
        _W,
        "An imported package is not among the declared dependencies.",
        "It may be missing where the rollout runs. Packages that come with osmosis-ai and "
        "the extras "
        "you request are declared already; an SDK module may need an extra of its own. Imports "
        "for type checkers only, and those whose ImportError is caught, need no declaration.",
        'import numpy   # dependencies = ["osmosis-ai[server]"]',
        'dependencies = ["osmosis-ai[server]", "numpy"]',
    ),
    _code(
        "no-server-wiring",
        _W,
        "Nothing calls create_rollout_server.",
        "The classes are fine, but run as a script the entrypoint starts no server. A function of "
        "your own with that name is another one, unless it calls the SDK's.",
        "class ChessFlow(AgentWorkflow): ...",
        "app = create_rollout_server(backend=LocalBackend(workflow=ChessFlow, grader=ChessScore))",
    ),
    _code(
        "server-started-at-import",
        _W,
        "Importing the entrypoint starts the server.",
        "Discovery imports the file; a server started there blocks it for ever.",
        "uvicorn.run(app)",
        'if __name__ == "__main__":\n    uvicorn.run(app)',
    ),
    _code(
        "backend-mismatch",
        _W,
        "The backend serves another class than the one exposed.",
        "The platform records the exposed class, the server runs the one given to the backend. One "
        "of them is a mistake.",
        "LocalBackend(workflow=spare.SpareFlow, grader=Score)   # ChessFlow is exposed",
        "LocalBackend(workflow=ChessFlow, grader=Score)",
    ),
    _code(
        "hard-coded-provider-call",
        _W,
        "The workflow calls a model provider itself.",
        "Training replaces the policy behind the rollout's own endpoint. A call with a fixed model "
        "bypasses it, and its samples get no reward. Calls in tasks, threads and retried helpers "
        "count too; a client whose URL is not written down in the code is taken for routed.",
        'AsyncOpenAI().chat.completions.create(model="gpt-5", ...)',
        "rollout = get_rollout_context()\n"
        "AsyncOpenAI(base_url=rollout.chat_completions_url, api_key=rollout.api_key)",
    ),
    _code(
        "relative-import-entrypoint",
        _W,
        "The entrypoint uses a relative import.",
        "Discovery loads it inside a package, where that works; in production the file runs as a "
        "script, where it does not. One for type checkers only, or with another way where "
        "ImportError is caught, is fine.",
        "from .flow import ChessFlow",
        "from flow import ChessFlow",
    ),
    _code(
        "harbor-native",
        _W,
        "A Harbor backend uses a native agent or the task's own reward.",
        "The rule asks for one workflow and one grader class. Native agents are allowed only where "
        "the option accept_harbor_native is set.",
        'HarborBackend(agent="terminus-2", grader=None, ...)',
        "HarborBackend(agent=ChessFlow, grader=ChessScore, ...)",
    ),
    _code(
        "unverified-method",
        _W,
        "A decorator from another package hides whether run or grade is still async.",
        "The decorator's code is not here, so the contract cannot be checked. The warning stands "
        "at that decorator.",
        "@backoff.on_exception(backoff.expo, TimeoutError)\nasync def grade(self, ctx): ...",
        "Call the decorated helper from an undecorated grade.",
    ),
    _code(
        "outside-artifact",
        _E,
        "A path dependency lies outside the rollout folder.",
        "The artifact of a rollout holds its folder and what it links to, not packages beside it.",
        '[tool.uv.sources]\nshared = { path = "../../libs/shared" }',
        '[tool.uv.sources]\nshared = { path = "libs/shared" }',
    ),
    _code(
        "removed-api",
        _W,
        "The code uses API that SDK 0.3.8 no longer has.",
        "One rollout has one sample: ctx.sample and ctx.set_reward() replace the lists of earlier "
        "versions.",
        "ctx.set_sample_reward(0, 1.0)",
        "ctx.set_reward(1.0)",
    ),
    _code(
        "reward-never-set",
        _W,
        "No path of grade sets a reward.",
        "A rollout without a reward fails. Returning a number from grade has no effect. Code that "
        "grade calls may set it; where ctx goes to another package, nothing is said.",
        "async def grade(self, ctx):\n    return 1.0",
        "async def grade(self, ctx):\n    ctx.set_reward(1.0)",
    ),
    _code(
        "declared-component",
        _W,
        "The class is taken from pyproject.toml because the code does not show it.",
        "The declaration turns `unresolvable` into a promise of yours. It never waives an error.",
        '[tool.gitsync.entrypoints."main.py"]\nworkflow = "flows:ChessFlow"',
        "Import the class by name and remove the declaration.",
    ),
)
