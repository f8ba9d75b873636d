"""The answers about templates, skills and changes as models; see `gitsync.web.shapes`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gitsync.records import JobState
from gitsync.web.shapes import (
    BranchName,
    Count,
    Finding,
    Moment,
    Page,
    Plain,
    PlainText,
    Problem,
    Shape,
    ShaText,
    Shown,
)


class Template(Shape):
    """A starter: a rollout with its configs that can be added under any name."""

    name: str = Field(examples=["minimal-local"])
    description: str
    extras: list[str] = Field(description="Extras of `osmosis-ai` that the rollout needs.")
    parameters: Plain = Field(description="JSON Schema.")
    owned: list[str] = Field(description="Folders that belong to it alone, under its own name.")
    files: list[str] = Field(description="Files of its own outside of those folders.")
    shared: list[str] = Field(description="Files that several starters share.")
    next_steps: list[str]


class WholeTemplate(Template):
    """A starter with the paths it writes by default."""

    writes: list[str]


class KnownSkill(Shape):
    """A skill that can be installed."""

    name: str = Field(examples=["plan-training"])
    use_when: str
    optional: bool = Field(description="False: a new workspace gets it unless it asks for others.")


class Templates(Page[Template]):
    """What a workspace can be made of."""

    template: str
    version: str
    description: str
    parameters: Plain = Field(description="JSON Schema of the parameters of a whole workspace.")
    skills: list[KnownSkill]


class UsedStarter(Shape):
    """A starter that was applied."""

    starter: str
    rollout: str
    parameters: Plain
    known: bool = Field(description="False: the present template has no such starter any more.")


class UsedSkill(Shape):
    """A skill that was installed."""

    name: str
    mode: Literal["link", "copy"]
    known: bool


class TemplateState(Shape):
    """What a commit holds of the template; from its lock file."""

    commit_sha: ShaText | None
    template: PlainText | None = Field(description="null: nothing came from a template.")
    version: PlainText | None
    available_version: str
    workspace: Plain = Field(description="Parameters of the workspace's own files, or null.")
    starters: list[UsedStarter]
    skills: list[UsedSkill]
    tracked: Count = Field(description="Files that the lock lists.")
    edited: list[Shown]
    missing: list[Shown]
    outdated: list[Shown] = Field(description="The present template has them otherwise.")


class Skill(Shape):
    """A skill of a commit or of the catalogue, and what is wrong with it."""

    name: Shown
    installed: bool
    known: bool
    mode: Literal["link", "copy"] | None
    edited: list[Shown]
    missing: list[Shown]
    outdated: list[Shown]
    damage: list[Shown]


class Skills(Page[Skill]):
    """The skills of a commit, and those it could have."""

    commit_sha: ShaText | None


class PlanStep(Shape):
    """What happens to one path; sides are `MODE BLOB`."""

    action: Literal["create", "replace", "delete", "skip", "conflict"]
    path: Shown
    reason: Shown
    base: str | None = None
    ours: str | None = None
    theirs: str | None = None


class Counts(Shape):
    """How many paths meet each action."""

    create: Count
    replace: Count
    delete: Count
    skip: Count
    conflict: Count


class Patch(Shape):
    """What changes in one file."""

    path: Shown
    patch: PlainText


class Edits(Page[Patch]):
    """What was changed of the template's files."""

    commit_sha: ShaText | None


class Change(Shape):
    """A change, made or planned."""

    outcome: Literal["planned", "committed", "unchanged", "patch"]
    written: bool
    branch: BranchName | None = Field(description="Where the commit is.")
    base_sha: ShaText | None = Field(description="What it was planned on; null: no commit yet.")
    commit_sha: ShaText | None
    job_id: int | None
    sync_id: int | None = Field(description="The sync that publishes it.")
    summary: Shown
    blocked: bool = Field(description="Conflicts stop the whole plan.")
    counts: Counts
    steps: list[PlanStep]
    notes: list[Shown]
    findings: list[Finding] = Field(description="What the check says of the planned tree.")
    diffs: list[Patch] = Field(description="Of a dry run.")
    next_steps: list[Shown]
    patch: PlainText | None = Field(description="A mail for `git am`, where we may not write.")
    reason: Shown | None = Field(description="Why there is only a patch.")


class Job(Shape):
    """A change that was asked for, and what came of it."""

    id: int
    operation: str = Field(examples=["apply"])
    state: JobState
    requested_by: str | None
    branch: BranchName | None
    base_sha: ShaText | None
    commit_sha: ShaText | None
    sync_id: int | None
    attempts: Count
    error: Problem | None
    created_at: Moment
    finished_at: Moment | None
