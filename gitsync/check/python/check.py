"""One check from start to end: the fatal codes, the import, the roles, then the warnings."""

from __future__ import annotations

from gitsync.check.python import warn
from gitsync.check.python.contracts import Breach, breaches
from gitsync.check.python.dependencies import brought
from gitsync.check.python.facts import CLASS_NAMES
from gitsync.check.python.finding import ROOT, import_names
from gitsync.check.python.findings import Fatal
from gitsync.check.python.heap import ListObj, Namespace
from gitsync.check.python.imports import Importer
from gitsync.check.python.locating import Locator, NamedAt
from gitsync.check.python.machine import Machine
from gitsync.check.python.project import Project, read_project
from gitsync.check.python.roles import Agreed, World, agree, assign_roles, examine
from gitsync.check.python.source import LimitHit, Sources
from gitsync.check.python.values import Const, Place, Value
from gitsync.check.python.wiring import Wiring
from gitsync.check.python.worlds import REGISTRY, SYS_MODULES, SYS_PATH, Outcome, spent
from gitsync.model import CheckOptions, EntrypointReport, Severity, Verdict
from gitsync.tree import Tree

ROLES = ("workflow", "grader")


class Check(Locator):
    """The state of one check; `run` is called once."""

    def __init__(
        self,
        tree: Tree,
        rollout: str,
        entrypoint: str,
        options: CheckOptions,
        named_at: NamedAt | None,
    ) -> None:
        super().__init__(tree, rollout, entrypoint, named_at)
        self.options = options
        self.names: dict[str, str | None] = {"workflow": None, "grader": None}

    def run(self) -> EntrypointReport:
        """Do the check."""
        try:
            entry, folder = self.locate()
            self.folder_real = folder
            project = read_project(self.files, folder, self.entrypoint)
            self.about_project(project)
            self.judge(entry, folder, project)
        except Fatal as fatal:
            self.findings = [f for f in self.findings if f.code == "missing-pyproject"]
            self.findings.append(fatal.finding)
            self.names = {"workflow": None, "grader": None}
        except LimitHit as limit:
            found = self.fatal(
                "source-limit",
                Place(limit.path or f"{self.folder}/{self.entrypoint}", 1, 1),
                "",
                f"This file was not checked to the end: {limit.reason}",
                "Make it smaller or raise the limit of the check",
            )
            self.findings = [f for f in self.findings if f.code == "missing-pyproject"]
            self.findings.append(found.finding)
            self.names = {"workflow": None, "grader": None}
        findings = tuple(sorted(self.findings, key=lambda f: f.order))
        return EntrypointReport(
            self.rollout,
            self.entrypoint,
            Verdict.of(findings),
            self.names["workflow"],
            self.names["grader"],
            findings,
        )

    def about_project(self, project: Project) -> None:
        """Findings about `pyproject.toml` itself."""
        path = f"{self.folder}/pyproject.toml"
        if project.error is not None:
            line, column, reason = project.error
            self.add(
                "bad-pyproject",
                Severity.ERROR,
                Place(path, line, column),
                "",
                f"pyproject.toml of the rollout {self.rollout} cannot be read: {reason}",
                "Correct the file",
            )
        for line, column, name, target in project.outside:
            self.add(
                "outside-artifact",
                Severity.ERROR,
                Place(path, line, column),
                name,
                f"The dependency {name} lies at {target}, outside the rollout folder",
                "Move it into the rollout folder, or depend on a published package",
            )

    def judge(self, entry: str, folder: str, project: Project) -> None:
        """Import abstractly and report what every possible import agrees on."""
        options = self.options
        self.sources = Sources(self.files, options, project.minor)
        deadline = spent() + options.seconds_per_entrypoint
        machine = Machine(self.sources, minor=project.minor, deadline=deadline, clock=spent)
        installed: set[str] = set()
        distributions, extras, _ = brought(project)
        for name in distributions:
            installed |= import_names(name)
        importer = Importer(
            machine,
            self.files,
            folder,
            installed=frozenset(installed),
            extras=frozenset(extras),
        )
        machine.importer = importer
        _prepare(machine, folder)
        path = f"{folder}/{entry}"
        outcomes, oid = importer.load_entrypoint(entry)
        worlds = examine(machine, outcomes, oid, path) if oid >= 0 else examine_failed(outcomes)
        readable = set(self.sources.read_paths)
        loaded = [p for p in importer.loaded_files if p in readable]
        self._fatal_worlds(machine, worlds, path)
        report = warn.Context(self, machine, importer, worlds, oid, path, project, loaded)
        read = path in readable
        wiring = warn.wiring_of(report) if read else Wiring()
        assign_roles(machine, worlds, oid, path)
        agreed = {role: self._agree(machine, worlds, role) for role in ROLES}
        waived = warn.harbor(report, wiring, agreed)
        for role in ROLES:
            self._role(machine, worlds, role, agreed[role], report, wiring, waived)
        if read:
            warn.everything(report, wiring, self.names)

    def _agree(self, machine: Machine, worlds: list[World], role: str) -> Agreed:
        agreed = agree(worlds, role)
        doubt = machine.overflow_doubt()
        if doubt is not None and agreed.kind != "doubt":
            return Agreed("doubt", "", doubt.place, doubt.reason)
        return agreed

    def _fatal_worlds(self, machine: Machine, worlds: list[World], path: str) -> None:
        """All possible imports fail in the same way: that is the answer."""
        if not worlds or any(w.raised is None for w in worlds) or machine.overflow is not None:
            return
        if any("doubt" in _registry(w).values for w in worlds):
            return
        codes = {
            w.raised.refused.code if w.raised and w.raised.refused else "import-error"
            for w in worlds
        }
        if len(codes) > 1:
            return
        raised = worlds[0].raised
        if raised is None:
            return
        code = codes.pop()
        if raised.refused is not None:
            place = Place(raised.refused.path, raised.refused.line, raised.refused.column)
            if code == "too-complex":
                raise self.fatal(
                    code,
                    place,
                    "",
                    f"Python gives up on this file: {raised.reason}",
                    "Split the deeply nested expression or block",
                )
            raise Fatal(
                self.make_exact(
                    code,
                    place,
                    f"This file is no valid Python: {raised.reason}",
                    "Correct it; the entrypoint imports it",
                )
            )
        place = raised.place if raised.place.path else Place(path, 1, 1)
        raise self.fatal(
            "import-error",
            place,
            "",
            f"Importing the entrypoint fails here: {raised.reason}",
            "Make the module importable",
        )

    def _role(
        self,
        machine: Machine,
        worlds: list[World],
        role: str,
        agreed: Agreed,
        report: warn.Context,
        wiring: Wiring,
        waived: set[str],
    ) -> None:
        kind = CLASS_NAMES[role]
        if agreed.kind == "doubt":
            self._doubt(machine, worlds, role, agreed, report)
        elif agreed.kind == "one":
            self.names[role] = agreed.text
            self._contracts(machine, worlds, role)
        elif agreed.text == "multiple":
            self._multiple(worlds, role, report)
        elif agreed.text == "abstract":
            last = worlds[0].roles[role].abstract[-1]
            self.add(
                f"abstract-{role}",
                Severity.ERROR,
                last[2],
                last[1],
                f"Only abstract {kind} classes are exposed by {self.folder}/{self.entrypoint}: "
                f"{last[1]} lacks {_lacking(machine, worlds[0], last[0])}",
                "Implement the missing methods",
            )
        elif f"no-{role}" not in waived:
            hint = wiring.hints.get(role)
            place, fix = hint or (
                Place(report.path, 1, 1),
                f"Define one {kind} class or import it by name",
            )
            what = f"No {kind} class is exposed by {self.folder}/{self.entrypoint}"
            if hint is not None:
                fix = f"{fix} into the entrypoint"
            self.add(f"no-{role}", Severity.ERROR, place, "", what, fix)

    def _doubt(
        self,
        machine: Machine,
        worlds: list[World],
        role: str,
        agreed: Agreed,
        report: warn.Context,
    ) -> None:
        declared = report.project.declared.get(role)
        if declared is not None and warn.declared_fits(report, role, declared):
            line, column = report.project.declared_place
            self.names[role] = declared
            self.add(
                "declared-component",
                Severity.WARNING,
                Place(f"{self.folder}/pyproject.toml", line, column),
                declared,
                f"The {role} {declared} is taken from pyproject.toml because the code does not "
                "show it",
                "Import the class by name to have it checked",
            )
            return
        place = agreed.place or Place(report.path, 1, 1)
        if not place.path:
            place = Place(report.path, 1, 1)
        self.add(
            "unresolvable",
            Severity.UNRESOLVED,
            place,
            role,
            f"The {role} cannot be determined without running the code: {agreed.reason}",
            agreed.fix,
        )

    def _multiple(self, worlds: list[World], role: str, report: warn.Context) -> None:
        kind = CLASS_NAMES[role]
        found = sorted(worlds[0].roles[role].concrete, key=lambda c: (c[3].line, c[3].column))
        listed = []
        for value, shown, name, place in found:
            where = warn.defined_at(worlds[0], value, place)
            listed.append(f"{name if shown.endswith(name) else f'{name} = {shown}'} ({where})")
        number = {2: "Two", 3: "Three", 4: "Four"}.get(len(found), str(len(found)))
        self.add(
            f"multiple-{role}s",
            Severity.ERROR,
            found[1][3],
            found[1][2],
            f"{number} {kind} classes are exposed by {self.folder}/{self.entrypoint}: "
            f"{', '.join(listed[:-1])} and {listed[-1]}",
            "Move one into a module and import that module instead of the class",
        )

    def _contracts(self, machine: Machine, worlds: list[World], role: str) -> None:
        per_world: list[list[Breach]] = []
        for world in worlds:
            value: Value = world.roles[role].concrete[0][0]
            per_world.append(breaches(machine, world.state, value, role))
        codes = [{b.code for b in found} for found in per_world]
        for found in per_world:
            for breach in found:
                everywhere = all(breach.code in c for c in codes)
                if breach.code == "unverified-method":
                    self.add(
                        breach.code,
                        Severity.WARNING,
                        breach.place,
                        breach.subject,
                        f"Whether the contract of {breach.subject} is kept is not known: "
                        f"{breach.reason}",
                        "Make sure that it is still a coroutine function",
                    )
                elif everywhere and breach.certain:
                    self.add(
                        breach.code,
                        Severity.ERROR,
                        breach.place,
                        breach.subject,
                        f"{breach.reason[:1].upper()}{breach.reason[1:]}",
                        _MEND[breach.code],
                    )
                else:
                    self.add(
                        "unresolvable",
                        Severity.UNRESOLVED,
                        breach.place,
                        role,
                        f"Whether the contract of {breach.subject} is kept depends on a condition",
                        "Keep it in every branch",
                    )


_MEND = {
    "run-not-async": "Write it as async def without yield",
    "grade-not-async": "Write it as async def without yield",
    "bad-signature": "Let it take self and ctx; give further parameters defaults",
    "bad-init": "Let the constructor take the config (or None) as its only required argument",
}


def _registry(world: World) -> Namespace:
    found = world.state.heap.get(REGISTRY)
    return found if isinstance(found, Namespace) else Namespace()


def _lacking(machine: Machine, world: World, value: Value) -> str:
    from gitsync.check.python.heap import ClassObj
    from gitsync.check.python.values import Ref

    obj = world.state.heap.get(value.oid) if isinstance(value, Ref) else None
    names = sorted(obj.abstract) if isinstance(obj, ClassObj) else []
    return ", ".join(names) or "a method"


def examine_failed(outcomes: list[Outcome]) -> list[World]:
    """Worlds of an import that failed before the entrypoint's own module existed."""
    return [World(o.state, o.raised, {}) for o in outcomes if o.raised]


def _prepare(machine: Machine, folder: str) -> None:
    """`sys.modules`, `sys.path` and what is remembered about the outside."""
    state = machine.state
    state.add(SYS_MODULES, Namespace())
    state.add(SYS_PATH, ListObj([Const(f"{ROOT}/{folder}" if folder else ROOT)]))
    state.add(REGISTRY, Namespace())
