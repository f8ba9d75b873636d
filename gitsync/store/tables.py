"""The tables. Every promise of the service is a row here; see `docs/architecture.md`.

Times are integers, microseconds since 1970 UTC (`Moment`), so that SQLite and PostgreSQL compare
them alike; JSON is text. Text from outside is passed through `gitsync.text.storable` first.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Moment(sa.TypeDecorator[datetime]):
    """An aware datetime kept as microseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> int | None:
        """To the row."""
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: Any | None, dialect: sa.Dialect) -> datetime | None:
        """From the row."""
        return None if value is None else _EPOCH + timedelta(microseconds=value)


class Json(sa.TypeDecorator[Any]):
    """A JSON value kept as text, keys in the order given."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any | None, dialect: sa.Dialect) -> str | None:
        """To the row; lone surrogates are kept as escapes, which every database takes."""
        return None if value is None else json.dumps(value, ensure_ascii=True)

    def process_result_value(self, value: Any | None, dialect: sa.Dialect) -> Any:
        """From the row."""
        return None if value is None else json.loads(value)


class clock(FunctionElement[datetime]):
    """The database's own clock: leases must not depend on the clocks of several machines."""

    type = Moment()
    inherit_cache = True


@compiles(clock, "sqlite")
def _sqlite_clock(element: clock, compiler: Any, **kw: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"


@compiles(clock, "postgresql")
def _postgresql_clock(element: clock, compiler: Any, **kw: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"


# An identity column on both: SQLite only makes INTEGER PRIMARY KEY one.
Id = BigInteger().with_variant(Integer, "sqlite")

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _workspace(**more: Any) -> Column[str]:
    return Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        nullable=False,
        **more,
    )


facts = Table(
    "facts",
    metadata,
    Column("name", String(80), primary_key=True),
    Column("value", Json, nullable=False),
)

users = Table(
    "users",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("email", String(320), nullable=False),
    Column("email_key", String(320), nullable=False, unique=True),
    Column("name", String(200), nullable=False),
    Column("is_admin", Boolean, nullable=False),
    Column("password_hash", String(200)),
    Column("created_at", Moment, nullable=False),
    Column("disabled_at", Moment),
)

login_links = Table(
    "login_links",
    metadata,
    Column("code_hash", String(64), primary_key=True),
    Column("user_id", String(40), ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("used_at", Moment),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("token_hash", String(64), nullable=False, unique=True),
    Column("user_id", String(40), ForeignKey("users.id", ondelete="CASCADE"), index=True),
    Column("name", String(200), nullable=False),
    Column("role", String(20)),  # read, push, executor for machine tokens; None for a person's
    Column("kinds", Json),  # kinds of runs an executor may carry out; None: every kind
    Column("created_by", String(40)),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
    Column("last_used_at", Moment),
    Column("revoked_at", Moment),
)

token_workspaces = Table(
    "token_workspaces",
    metadata,
    Column("token_id", String(40), ForeignKey("tokens.id", ondelete="CASCADE"), primary_key=True),
    _workspace(primary_key=True),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("name_key", String(200), nullable=False, unique=True),
    Column("identity", String(160), nullable=False),
    Column("identity_key", String(160), nullable=False, unique=True),
    Column("provider", String(20), nullable=False),  # embedded, github, generic, ...
    Column("clone_url", Text),  # None for the embedded host: derived from the public URL
    Column("root", Text, nullable=False, server_default=""),
    Column("state", String(20), nullable=False),  # active, suspended, disconnected
    Column("watch", String(20), nullable=False),  # default, all
    Column("default_branch", Text),  # full ref as last seen
    Column("chosen_branch", Text),  # full ref a person insists on
    Column("settings", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("created_by", String(40)),
    # who may work on it, and what is owed (decisions 15, 16, 24)
    Column("requested", BigInteger, nullable=False, server_default="0"),
    Column("done", BigInteger, nullable=False, server_default="0"),
    Column("owed_since", Moment),  # when the oldest look that is owed was asked for
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("owner", String(40)),
    Column("expires_at", Moment),
    Column("not_before", Moment),
    Column("hold", String(20)),  # retry-after, credential: a push does not lift these
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("lag_looks", Integer, nullable=False, server_default="0"),
    Column("suspect", Json),  # a backward move that waits for its second look
    Column("next_poll_at", Moment),
    Column("last_look_at", Moment),
    Column("last_error", Json),
    Index("ix_workspaces_owed", "state", "not_before"),
    Index("ix_workspaces_next_poll_at", "next_poll_at"),
)

memberships = Table(
    "memberships",
    metadata,
    _workspace(primary_key=True),
    Column("user_id", String(40), ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("role", String(20), nullable=False),  # owner, admin, member, reader
    Column("created_at", Moment, nullable=False),
    Index("ix_memberships_user_id", "user_id"),
)

credentials = Table(
    "credentials",
    metadata,
    _workspace(primary_key=True),
    Column("kind", String(20), nullable=False),  # token, password, ssh, file
    Column("username", String(200)),
    Column("sealed", Text),
    Column("public_key", Text),
    Column("known_hosts", Text),
    Column("path", Text),
    Column("updated_at", Moment, nullable=False),
)

webhook_secrets = Table(
    "webhook_secrets",
    metadata,
    Column("id", Id, primary_key=True),
    _workspace(index=True),
    Column("sealed", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    _workspace(),
    Column("provider", String(20), nullable=False),
    Column("delivery_id", String(200), nullable=False),
    Column("event", String(80), nullable=False),
    Column("ref", Text),
    Column("before_sha", String(64)),
    Column("after_sha", String(64)),
    Column("received_at", Moment, nullable=False),
    Column("times", Integer, nullable=False, server_default="1"),
    Column("outcome", String(30), nullable=False),
    Column("reason", Text),
    Column("sync_id", BigInteger),
    Column("settled_at", Moment),
    Column("redelivery_of", BigInteger),
    sa.UniqueConstraint("workspace_id", "provider", "delivery_id"),
    Index("ix_deliveries_workspace_id_id", "workspace_id", "id"),
    Index("ix_deliveries_sync_id", "sync_id"),
    Index("ix_deliveries_received_at", "received_at"),
)

syncs = Table(
    "syncs",
    metadata,
    Column("id", Id, primary_key=True),
    _workspace(),
    Column("trigger", String(20), nullable=False),
    Column("status", String(20), nullable=False),  # pending, syncing, success, failed
    Column("outcome", String(30)),
    Column("requested_at", Moment, nullable=False),
    Column("requested_by", String(40)),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Column("fence", BigInteger),
    Column("branches", Json, nullable=False),  # [{name, from_sha, to_sha, superseded_by}]
    Column("steps", Json, nullable=False),  # [{name, ms}]
    Column("findings", Json, nullable=False),
    Column("error", Json),  # {code, message, transient}
    Column("rollouts", Integer),
    Index("ix_syncs_workspace_id_id", "workspace_id", "id"),
    Index("ix_syncs_workspace_id_status", "workspace_id", "status"),
)

branches = Table(
    "branches",
    metadata,
    _workspace(primary_key=True),
    Column("name", Text, primary_key=True),  # full ref
    Column("head_sha", String(40)),
    Column("published_sha", String(40)),
    Column("state", String(20), nullable=False),  # live, gone
    Column("last_sync", BigInteger),
    Column("updated_at", Moment, nullable=False),
)

commit_states = Table(
    "commit_states",
    metadata,
    _workspace(primary_key=True),
    Column("sha", String(40), primary_key=True),
    Column("state", String(30), nullable=False),
    Column("branch", Text),
    Column("sync_id", BigInteger),
    Column("delivery_id", BigInteger),
    Column("superseded_by", String(40)),
    Column("reason", Text),
    Column("first_seen_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("id", Id, primary_key=True),
    _workspace(),
    Column("commit_sha", String(40), nullable=False),
    Column("tree", String(40), nullable=False),
    Column("parents", Json, nullable=False),
    Column("author", Json, nullable=False),
    Column("committer", Json, nullable=False),
    Column("message", Text, nullable=False),
    Column("committed_at", BigInteger, nullable=False),  # seconds as in the commit, unclamped
    Column("signature", String(20), nullable=False),
    Column("shallow", Boolean, nullable=False),
    Column("trigger", String(20), nullable=False),
    Column("sync_id", BigInteger),
    Column("published_at", Moment, nullable=False),
    Column("configs", Json, nullable=False),
    Column("skills", Json, nullable=False),
    Column("findings", Json, nullable=False),
    Column("fingerprint", String(80), nullable=False),
    sa.UniqueConstraint("workspace_id", "commit_sha"),
    Index("ix_versions_workspace_id_id", "workspace_id", "id"),
)

version_branches = Table(
    "version_branches",
    metadata,
    Column("version_id", Id, ForeignKey("versions.id", ondelete="CASCADE"), primary_key=True),
    Column("branch", Text, primary_key=True),
    Column("seen_at", Moment, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("state", String(20), nullable=False),  # live, deleting, quarantined
    Column("created_at", Moment, nullable=False),
    Column("checked_at", Moment),
)

artifact_keys = Table(
    "artifact_keys",
    metadata,
    Column("reuse_key", String(64), primary_key=True),
    Column(
        "digest", String(64), ForeignKey("artifacts.digest", ondelete="CASCADE"), nullable=False
    ),
    Index("ix_artifact_keys_digest", "digest"),
)

rollout_versions = Table(
    "rollout_versions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("version_id", Id, ForeignKey("versions.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("tree", String(40)),  # None: a config names it, the commit lacks it
    Column("content_key", String(64), nullable=False),  # name, tree and all that is read outside it
    Column("digest", String(64), ForeignKey("artifacts.digest")),
    Column("size", BigInteger),
    Column("runnable", Boolean, nullable=False),  # no outer error lies under the rollout
    Column("entrypoints", Json, nullable=False),
    sa.UniqueConstraint("version_id", "name"),
    Index("ix_rollout_versions_digest", "digest"),
    Index("ix_rollout_versions_name", "name"),
    Index("ix_rollout_versions_content_key", "content_key"),
)

# One row for equal content, however many versions hold it (decision 8).
assessments = Table(
    "assessments",
    metadata,
    Column("id", Id, primary_key=True),
    _workspace(),
    Column("content_key", String(64), nullable=False),
    Column("entrypoint", Text, nullable=False),
    Column("options", String(64), nullable=False),
    Column("fingerprint", String(80), nullable=False),
    Column("verdict", String(20), nullable=False),
    Column("workflow", Text),
    Column("grader", Text),
    Column("findings", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
    sa.UniqueConstraint(
        "workspace_id",
        "content_key",
        "entrypoint",
        "options",
        "fingerprint",
        name="uq_assessments_content",
    ),
)

packs = Table(
    "packs",
    metadata,
    Column("id", Id, primary_key=True),
    _workspace(index=True),
    Column("object_key", Text, nullable=False),
    Column("tips", Json, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("shallow", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
)

pins = Table(
    "pins",
    metadata,
    Column("version_id", Id, ForeignKey("versions.id", ondelete="CASCADE"), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("owner", String(40)),
    Column("reason", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
)

leases = Table(
    "leases",
    metadata,
    Column("id", Id, primary_key=True),
    Column("version_id", Id, ForeignKey("versions.id", ondelete="CASCADE"), nullable=False),
    Column("holder", String(200), nullable=False),
    Column("expires_at", Moment, nullable=False),
    Index("ix_leases_version_id", "version_id"),
)

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("workspace_id", String(40)),
    Column("type", String(40), nullable=False),
    Column("data", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
    Index("ix_events_workspace_id_id", "workspace_id", "id"),
    Index("ix_events_created_at", "created_at"),
    sqlite_autoincrement=True,  # an id must never come back after old events are removed
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("user_id", String(40), primary_key=True),
    Column("method", String(10), primary_key=True),
    Column("path", Text, primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("body_hash", String(64), nullable=False),
    Column("boot", String(40), nullable=False),  # of the server that works on it
    Column("status", Integer),
    Column("sealed", Text),
    Column("created_at", Moment, nullable=False),
)

git_children = Table(
    "git_children",
    metadata,
    Column("pgid", BigInteger, primary_key=True),
    Column("boot", String(40), primary_key=True),
    Column("workspace_id", String(40)),
    Column("started", String(40), nullable=False),  # the kernel's start time of the leader
    Column("created_at", Moment, nullable=False),
)
