"""Random programs: rollouts of a few modules with everything that binds and rebinds classes.

Each program starts from a valid entrypoint in most cases and is then disturbed. `FLAGS` are
environment variables that its conditions may read; a real import is made for each combination.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

FLAGS = ("GEN_ONE", "GEN_TWO")
HEAD = "from osmosis_ai.rollout import AgentWorkflow, Grader\n"
ROLES = {"AgentWorkflow": "run", "Grader": "grade"}


@dataclass(slots=True)
class Module:
    """A module under construction: its lines, the names that probably hold classes."""

    name: str
    lines: list[str] = field(default_factory=list)
    classes: dict[str, str] = field(default_factory=dict)  # name -> base it comes from
    functions: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"


@dataclass(slots=True)
class Program:
    """Files by path from the rollout folder, and the flags the conditions read."""

    files: dict[str, str]
    flags: tuple[str, ...]


class Builder:
    """Writes one program with the choices of a `Random`."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.flags: set[str] = set()
        self.modules: list[Module] = []
        self.wild = rng.random()

    # -- pieces ----------------------------------------------------------------------------

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def pick(self, items):
        return self.rng.choice(list(items))

    def condition(self) -> str:
        plain = [
            "True",
            "False",
            "not False",
            "1 > 2",
            "TYPE_CHECKING",
            "sys.version_info >= (3, 12)",
            "sys.platform == 'win32'",
            "__name__ == '__main__'",
            "'a' in ('a', 'b')",
            "len([1, 2]) == 2",
            "None",
            "'x' and 0",
            "not (True and False)",
            "[]",
            "{'k': 1}",
        ]
        if self.maybe(0.3):
            flag = self.pick(FLAGS)
            self.flags.add(flag)
            text = f"os.environ.get('{flag}')"
            return self.pick(
                [
                    text,
                    f"not {text}",
                    f"'{flag}' in os.environ",
                    f"{text} and {self.pick(plain)}",
                    f"{text} == '1'",
                ]
            )
        return self.pick(plain)

    def class_lines(self, module: Module, name: str | None = None, base: str | None = None):
        """A class definition; returns its lines and name."""
        rng = self.rng
        root = self.pick(["AgentWorkflow", "Grader"])
        if base is None:
            options = [root] * 3 + [c for c, b in module.classes.items() if b in ROLES]
            base = self.pick(options)
        root = module.classes.get(base, base if base in ROLES else root)
        name = name or module.fresh(self.pick(["Flow", "Score", "Part", "_Inner", "Thing"]))
        method = ROLES.get(root, "run")
        bases = [base]
        if self.maybe(0.12) and "Mixin" in module.classes:
            bases.insert(rng.randint(0, 1), "Mixin")
        body: list[str] = []
        roll = rng.random()
        if roll < 0.72:
            body += [f"async def {method}(self, ctx):", "    return None"]
        elif roll < 0.76:
            body += [f"def {method}(self, ctx):", "    return None"]
        elif roll < 0.80:
            body += ["@abstractmethod", f"async def {method}(self, ctx): ..."]
        elif roll < 0.84:
            body += [
                "@abstractmethod",
                "def extra(self): ...",
                f"async def {method}(self, ctx): ...",
            ]
        elif roll < 0.88:
            body += [f"if {self.condition()}:", f"    async def {method}(self, ctx): ..."]
        elif roll < 0.90:
            body += [f"async def {method}(self): ..."]
        elif roll < 0.92:
            body += [f"async def {method}(self, ctx, more): ..."]
        if self.maybe(0.08):
            body += [
                self.pick(
                    [
                        "def __init__(self, config=None): self.config = config",
                        "def __init__(self): ...",
                        "def __init__(self, *args, **kw): super().__init__(*args)",
                        "def extra(self): return 1",
                        "size = 3",
                    ]
                )
            ]
        header = f"class {name}({', '.join(bases)}):"
        lines = [header, *("    " + line for line in body or ["pass"])]
        if self.maybe(0.12) and module.functions:
            lines.insert(0, f"@{self.pick(module.functions)}")
        module.classes[name] = root
        return lines, name

    def helper(self, module: Module) -> list[str]:
        """A function that may be used as decorator or factory."""
        name = module.fresh("helper")
        kind = self.rng.randint(0, 5)
        module.functions.append(name)
        if kind == 0:
            return [f"def {name}(cls):", "    return cls"]
        if kind == 1:
            return [f"def {name}(cls):", "    REG[cls.__name__] = cls", "    return cls"]
        if kind == 2:
            return [
                f"def {name}(cls):",
                "    class Wrapped(cls):",
                "        pass",
                "    return Wrapped",
            ]
        if kind == 3:
            return [
                f"def {name}(cls):",
                f"    if {self.condition()}:",
                "        return cls",
                "    return cls",
            ]
        if kind == 4:
            return [
                f"def {name}(cls):",
                "    cls.seen = True",
                "    for item in (cls, cls):",
                "        cls = item",
                "    return cls",
            ]
        return [
            f"def {name}(cls):",
            "    try:",
            "        return cls",
            "    finally:",
            "        REG['last'] = cls",
        ]

    # -- statements ------------------------------------------------------------------------

    def statement(self, module: Module, depth: int = 0) -> list[str]:
        """One statement of a module."""
        rng = self.rng
        names = list(module.classes) or ["AgentWorkflow"]
        others = [m for m in self.modules if m is not module and m.lines]
        roll = rng.random()
        if depth < 2 and roll < 0.20:
            return self.compound(module, depth)
        if roll < 0.34:
            return self.class_lines(module)[0]
        if roll < 0.42:
            new = module.fresh("Alias")
            old = self.pick(names)
            module.classes[new] = module.classes.get(old, "")
            return [f"{new} = {old}"]
        if roll < 0.47:
            return [f"{self.pick(names)} = {self.pick(['None', '3', 'object', '[]'])}"]
        if roll < 0.52:
            name = self.pick(names)
            module.classes.pop(name, None)
            return [f"del {name}"]
        if roll < 0.66 and others:
            return self.importing(module, self.pick(others))
        if roll < 0.72:
            return self.helper(module)
        if roll < 0.76 and module.functions:
            new = module.fresh("Made")
            old = self.pick(names)
            module.classes[new] = module.classes.get(old, "")
            return [f"{new} = {self.pick(module.functions)}({old})"]
        if roll < 0.88:
            return self.small(module, names)
        return self.odd(module, names)

    def odd(self, module: Module, names: list[str]) -> list[str]:
        """Rarer constructs: metaclasses, hooks, generators, closures, modules as objects."""
        name, other = self.pick(names), self.pick(names)
        new = module.fresh("Odd")
        root = module.classes.get(name, "AgentWorkflow") or "AgentWorkflow"
        method = ROLES.get(root, "run")
        body = [f"    async def {method}(self, ctx):", "        return None"]
        roll = self.rng.randint(0, 25)
        if roll not in (2, 9, 13, 18, 20):
            module.classes[new] = root
        flag = self.condition()
        return {
            0: [
                "from abc import ABCMeta",
                f"class Meta{new}(ABCMeta):",
                "    def __new__(mcs, name, bases, ns, **kw):",
                f"        ns.setdefault('{method}', None)" if self.maybe(0.3) else "        pass",
                "        return super().__new__(mcs, name, bases, ns, **kw)",
                f"class {new}({root}, metaclass=Meta{new}):",
                *body,
            ],
            1: [
                f"class Base{new}({root}):",
                "    seen = []",
                "    def __init_subclass__(cls, **kw):",
                "        super().__init_subclass__(**kw)",
                f"        Base{new}.seen.append(cls)",
                f"class _Sub{new}(Base{new}):",
                *body,
                f"{new} = Base{new}.seen[-1]",
                f"del _Sub{new}",
            ],
            2: [
                f"def gen{new}():",
                f"    yield {name}",
                f"    yield {other}",
                f"for _g in gen{new}():",
                "    pass",
                "del _g",
            ],
            3: [
                f"def gen{new}():",
                f"    if {flag}:",
                f"        yield {name}",
                f"    yield {other}",
                f"{new} = list(gen{new}())[0]",
            ],
            4: [
                f"def outer{new}():",
                f"    best = {name}",
                "    def change():",
                "        nonlocal best",
                f"        best = {other}",
                "    change()",
                "    return best",
                f"{new} = outer{new}()",
            ],
            5: [
                "from dataclasses import dataclass, field",
                "@dataclass",
                f"class {new}({root}):",
                "    config: object = None",
                *(["    more: int"] if self.maybe(0.2) else ["    more: int = 3"]),
                *body,
            ],
            6: [
                f"class {new}({root}):",
                "    async def _go(self, ctx): ...",
                f"    {method} = _go",
                *(["    del _go"] if self.maybe(0.4) else []),
            ],
            7: ["import functools", f"{new} = functools.partial(lambda a, b: b, 1)({name})"],
            8: [f"setattr(sys.modules[__name__], '{new}', {name})"],
            9: [f"delattr(sys.modules[__name__], '{name}')"],
            10: ["import types", f"{new} = types.SimpleNamespace(a={name}, b={other}).b"],
            11: [
                f"class Reg{new}:",
                "    def __init__(self): self.items = {}",
                "    def __call__(self, cls):",
                "        self.items[cls.__name__] = cls",
                "        return cls",
                f"reg{new} = Reg{new}()",
                f"@reg{new}",
                f"class {new}({root}):",
                *body,
            ],
            12: [f"{new} = {{c.__name__: c for c in ({name}, {other})}}[{other}.__name__]"],
            13: [f"assert issubclass({name}, object), {other}"],
            14: [f"{new} = max([{name}], key=lambda c: c.__name__)"],
            15: [f"{new} = sorted([{name}, {other}], key=lambda c: c.__qualname__)[0]"],
            16: [
                "import contextlib",
                "@contextlib.contextmanager",
                f"def cm{new}():",
                f"    yield {name}",
                f"with cm{new}() as {new}:",
                "    pass",
            ],
            17: [
                f"class {new}({root}):",
                f"    if {flag}:",
                f"        async def {method}(self, ctx): ...",
                "    else:",
                f"        async def {method}(self, ctx): ...",
            ],
            18: [f"if issubclass({name}, {root}):", f"    del {name}"],
            19: [
                f"def rec{new}(n, cls={name}):",
                f"    return cls if n == 0 else rec{new}(n - 1, cls)",
                f"{new} = rec{new}(3)",
            ],
            20: [f"{root}.register({name})"],
            21: [f"class {new}({name}, {other}):", "    pass"],
            22: [
                f"class {new}({root}):",
                "    def __new__(cls, *args):",
                "        return super().__new__(cls)",
                *body,
            ],
            23: [
                f"{new} = [c for c in globals().values() if isinstance(c, type)"
                f" and issubclass(c, {root})][-1]"
            ],
            24: [
                f"def wrap{new}(fn):",
                "    import functools",
                "    @functools.wraps(fn)",
                f"    {'async ' if self.maybe(0.7) else ''}def inner(self, *a):",
                "        return fn(self, *a)",
                "    return inner",
                f"class {new}({root}):",
                f"    @wrap{new}",
                *body,
            ],
            25: [f"{new} = {name}", f"{new}.extra_attribute = {other}"],
        }[roll]

    def small(self, module: Module, names: list[str]) -> list[str]:
        name, other = self.pick(names), self.pick(names)
        new = module.fresh("Got")
        roll = self.rng.randint(0, 17)
        root = module.classes.get(name, "AgentWorkflow")
        if roll not in (5, 6, 9, 15):
            module.classes[new] = root
        return {
            0: [f"TABLE = {{'a': {name}, 'b': {other}}}", f"{new} = TABLE['a']"],
            1: [f"{new} = [{name}, {other}][-1]"],
            2: [f"{new}, _rest = {name}, {other}"],
            3: [f"for {new} in ({name}, {other}):", "    pass"],
            4: [f"{new} = {name} if {self.condition()} else {other}"],
            5: [f"_names = [c.__name__ for c in ({name}, {other})]", "del _names"],
            6: [f"{name}.{ROLES.get(root, 'run')} = None"],
            7: [f"globals()['{new}'] = {name}"],
            8: [f"{new} = type('{new}', ({name},), {{'size': 1}})"],
            9: [f"if (_w := {name}) is {other}:", "    _same = True", "del _w"],
            10: [f"def make_{new}():", f"    global {new}", f"    {new} = {name}", f"make_{new}()"],
            11: [f"{new} = getattr(sys.modules[__name__], '{name}')"],
            12: [f"{new} = REG.setdefault('{new}', {name})"],
            13: [f"{new} = next(iter([{name}]))"],
            14: [f"{new} = (lambda c=({name}): c)()"],
            15: [f"_inst = {name}(None)", "del _inst"],
            16: [
                f"def pick_{new}(flag=({self.condition()})):",
                "    if flag:",
                f"        return {name}",
                f"    return {other}",
                f"{new} = pick_{new}()",
            ],
            17: [f"class Box_{new}:", f"    item = {name}", f"{new} = Box_{new}.item"],
        }[roll]

    def importing(self, module: Module, other: Module) -> list[str]:
        roll = self.rng.randint(0, 9)
        names = list(other.classes) or ["Missing"]
        name = self.pick(names)
        if roll == 0:
            for each, root in other.classes.items():
                if not each.startswith("_"):
                    module.classes[each] = root
            return [f"from {other.name} import *"]
        if roll == 1:
            new = module.fresh("Taken")
            module.classes[new] = other.classes.get(name, "")
            return [f"from {other.name} import {name} as {new}"]
        if roll == 2:
            new = module.fresh("Attr")
            module.classes[new] = other.classes.get(name, "")
            return [f"import {other.name} as _m", f"{new} = _m.{name}"]
        if roll == 3:
            return [f"import {other.name}"]
        if roll == 4:
            module.classes[name] = other.classes.get(name, "")
            return [
                "try:",
                f"    from {other.name} import {name}",
                "except ImportError:",
                f"    {name} = None",
            ]
        if roll == 6:
            return [f"import {other.name} as _o", f"_o.{name} = None"]
        if roll == 7:
            new = module.fresh("Mod")
            module.classes[new] = other.classes.get(name, "")
            return [f"import {other.name}", f"{new} = sys.modules['{other.name}'].{name}"]
        if roll == 8:
            return [
                f"import {other.name} as _v",
                "for _n, _c in list(vars(_v).items()):",
                "    if isinstance(_c, type) and _n[:1].isupper():",
                "        globals()[_n] = _c",
            ]
        if roll == 5:
            new = module.fresh("Dyn")
            module.classes[new] = other.classes.get(name, "")
            return [f"{new} = importlib.import_module('{other.name}').{name}"]
        module.classes[name] = other.classes.get(name, "")
        return [f"from {other.name} import {name}"]

    def block(self, module: Module, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.rng.randint(1, 2)):
            lines += self.statement(module, depth + 1)
        return ["    " + line for line in lines]

    def compound(self, module: Module, depth: int) -> list[str]:
        roll = self.rng.randint(0, 8)
        if roll <= 2:
            lines = [f"if {self.condition()}:", *self.block(module, depth)]
            if self.maybe(0.5):
                lines += ["else:", *self.block(module, depth)]
            return lines
        if roll == 3:
            error = self.pick(["ValueError", "KeyError", "NameError", "ImportError"])
            return [
                "try:",
                *self.block(module, depth),
                *([f"    raise {error}('x')"] if self.maybe(0.4) else []),
                f"except {self.pick([error, 'Exception', 'NameError'])}:",
                *self.block(module, depth),
            ]
        if roll == 4:
            return ["try:", *self.block(module, depth), "finally:", *self.block(module, depth)]
        if roll == 5:
            return [f"for _i in range({self.rng.randint(0, 2)}):", *self.block(module, depth)]
        if roll == 6:
            return ["while True:", *self.block(module, depth), "    break"]
        if roll == 7:
            return ["with contextlib.suppress(NameError, TypeError):", *self.block(module, depth)]
        return [
            f"match {self.rng.randint(0, 2)}:",
            "    case 0:",
            *("    " + line for line in self.block(module, depth)),
            "    case _:",
            *("    " + line for line in self.block(module, depth)),
        ]

    # -- the program -----------------------------------------------------------------------

    def module(self, name: str, size: int) -> Module:
        module = Module(name)
        self.modules.append(module)
        module.lines += [
            "import contextlib, importlib, os, sys",
            "from abc import abstractmethod",
            "from typing import TYPE_CHECKING",
            HEAD.strip(),
            "REG = {}",
        ]
        if self.maybe(0.3):
            module.lines += [
                "class Mixin:",
                "    async def run(self, ctx): ...",
                "    async def grade(self, ctx): ...",
            ]
            module.classes["Mixin"] = ""
        for _ in range(size):
            module.lines += self.statement(module)
        if self.maybe(0.2) and module.classes:
            chosen = [n for n in module.classes if self.maybe(0.7)]
            module.lines.append(f"__all__ = {chosen!r}")
        return module

    def build(self) -> Program:
        rng = self.rng
        for index in range(rng.randint(0, 3)):
            self.module(self.pick(["", "", "pack."]) + f"m{index}", rng.randint(0, 5))
        main = Module("main")
        self.modules.append(main)
        main.lines += [
            "import contextlib, importlib, os, sys",
            "from abc import abstractmethod",
            "from typing import TYPE_CHECKING",
            HEAD.strip(),
            "REG = {}",
        ]
        others = self.modules[:-1]
        calm = self.maybe(0.65)
        if calm:
            self.calm(main, others)
        else:
            for _ in range(rng.randint(1, 7)):
                main.lines += self.statement(main)
        files = {"main.py": "\n".join(main.lines) + "\n"}
        for module in others:
            files[module.name.replace(".", "/") + ".py"] = "\n".join(module.lines) + "\n"
        packed = [m for m in others if m.name.startswith("pack.")]
        if packed and self.maybe(0.6):
            one = self.pick(packed)
            names = list(one.classes) or ["Missing"]
            files["pack/__init__.py"] = self.pick(
                [
                    "",
                    f"from .{one.name[5:]} import {self.pick(names)}\n",
                    f"from . import {one.name[5:]}\n",
                    f"from .{one.name[5:]} import *\n",
                    "import main\n",
                ]
            )
        if packed and self.maybe(0.3):
            one = self.pick(packed)
            files[one.name.replace(".", "/") + ".py"] += self.pick(
                [
                    "from . import nothing\n",
                    "import main as _main\n",
                    "from .. import main\n",
                    "import pack\n",
                ]
            )
        return Program(files, tuple(sorted(self.flags)))

    def calm(self, main: Module, others: list[Module]) -> None:
        """One workflow, one grader, and harmless or nearly harmless noise around them."""
        parts: list[list[str]] = []
        for base in ("AgentWorkflow", "Grader"):
            name = main.fresh("Real")
            method = ROLES[base]
            lines = [
                f"class {name}({base}):",
                f"    async def {method}(self, ctx):",
                "        return None",
            ]
            if self.maybe(0.25):
                lines = [
                    f"def build_{name}(base):",
                    *("    " + x for x in lines),
                    f"    return {name}",
                    f"{name} = build_{name}({base})",
                ]
                lines[1] = lines[1].replace(f"({base})", "(base)")
            elif self.maybe(0.2):
                keep = main.fresh("keep")
                lines = [
                    f"def {keep}(cls):",
                    "    REG[cls.__name__] = cls",
                    "    return cls",
                    f"@{keep}",
                    *lines,
                ]
            elif self.maybe(0.2):
                lines = [
                    f"if {self.condition()}:",
                    *("    " + x for x in lines),
                    "else:",
                    *("    " + x for x in lines),
                ]
            parts.append(lines)
            main.classes[name] = base
        noise: list[list[str]] = []
        for _ in range(self.rng.randint(0, 4)):
            noise.append(self.noise(main, others))
        for block in noise:
            parts.insert(self.rng.randint(0, len(parts)), block)
        for block in parts:
            main.lines += block
        if self.maybe(0.25):
            main.lines += self.statement(main)

    def noise(self, main: Module, others: list[Module]) -> list[str]:
        roll = self.rng.randint(0, 11)
        name = main.fresh("noise")
        if roll == 0 and others:
            return [f"import {self.pick(others).name}"]
        if roll == 1 and others:
            other = self.pick(others)
            return [
                "try:",
                f"    from {other.name} import Nothing",
                "except ImportError:",
                f"    {name} = None",
            ]
        return {
            2: [f"if {self.condition()}:", f"    {name} = 1", "else:", f"    {name} = 'b'"],
            3: [f"{name} = [n for n in os.environ if n.startswith('GEN')]"],
            4: [f"for {name} in range(3):", "    REG[str(" + name + ")] = " + name],
            5: [f"def {name}(value):", "    return value", f"{name}_x = {name}({name})"],
            6: [f"class {name}:", "    def run(self, ctx): ...", "    def grade(self, ctx): ..."],
            7: [f"{name} = os.environ.get('HOME') or 'x'", f"{name} = {name}.upper()"],
            8: [
                f"try:\n    {name} = int(os.environ.get('GEN_N', '3'))\nexcept ValueError:\n    "
                f"{name} = 0"
            ],
            9: [f"with contextlib.suppress(KeyError):\n    {name} = os.environ['GEN_MISSING']"],
            10: [f"class {name}(AgentWorkflow):", "    pass"],
        }.get(roll, [f"{name} = {{'a': 1}}.get('a', 2)"])


def program(rng: Random) -> Program:
    """One random program."""
    return Builder(rng).build()
