"""What an operator may set: `GITSYNC_*` in the environment, or keys of `gitsync.toml`.

The environment wins over the file; the file is `./gitsync.toml`, or the one `GITSYNC_CONFIG` names.
Every limit that refuses somebody's work is here, and the refusal names the setting.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from packaging.version import InvalidVersion, Version
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from gitsync.errors import ConfigError

KIB, MIB, GIB = 1024, 1024**2, 1024**3
CommaList = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    """All settings with their defaults; see the table in the README."""

    model_config = SettingsConfigDict(
        env_prefix="GITSYNC_", extra="forbid", frozen=True, validate_default=True
    )

    # where things are
    data_dir: Path = Field(Path("gitsync-data"), description="Folder of all local state.")
    database_url: str | None = Field(
        None,
        description="`postgresql://…`; without it SQLite in the data folder.",
    )
    artifact_store: str | None = Field(
        None,
        description="`s3://bucket/prefix` or a folder; without it `artifacts` in the data folder.",
    )
    s3_endpoint: str | None = Field(None, description="Endpoint of an S3-compatible store.")
    s3_region: str = Field("us-east-1", description="Region of the S3 store.")
    s3_access_key_id: str | None = Field(None, description="Access key of the S3 store.")
    s3_secret_access_key: SecretStr | None = Field(None, description="Secret key of the S3 store.")

    # how it is reached
    host: str = Field("127.0.0.1", description="Address the server binds to.")
    port: int = Field(8750, ge=0, le=65535, description="Port the server binds to; 0 picks one.")
    public_url: str | None = Field(
        None, description="URL under which people reach the server; default `http://HOST:PORT`."
    )
    trusted_proxies: CommaList = Field(
        (), description="Addresses whose `X-Forwarded-*` headers are believed, comma-separated."
    )

    # secrets
    secret_keys: CommaList = Field(
        (),
        description="Keys that encrypt stored secrets, comma-separated; the first encrypts, all "
        "decrypt. Without it a key is made in the data folder.",
    )

    # the network we fetch from
    allowed_hosts: CommaList = Field(
        (),
        description="Hosts, `host:port`, addresses or CIDR blocks that may be connected to "
        "although they are private, comma-separated.",
    )
    ca_bundle: Path | None = Field(None, description="CA certificates for Git and API calls (PEM).")
    proxy: str | None = Field(None, description="HTTP proxy for outgoing Git and API calls.")
    credential_dirs: CommaList = Field(
        (), description="Folders from which credential references may read files, comma-separated."
    )

    # the osmosis CLI
    min_cli_version: str | None = Field(
        None, description="Oldest osmosis CLI that is served, such as `0.3.8`; default: any."
    )
    advised_cli_version: str | None = Field(
        None, description="osmosis CLI below which users are told to upgrade; default: none."
    )
    base_models: CommaList = Field(
        ("Qwen/Qwen3.6-35B-A3B",),
        description="Models that the executors can train, comma-separated.",
    )
    cli_token_days: int = Field(
        90, ge=1, le=3650, description="Days a token from `osmosis auth login` lives."
    )

    # when things happen
    poll_interval_s: float = Field(60.0, gt=0, description="Seconds between polls of a workspace.")
    embedded_compare_s: float = Field(
        30.0, gt=0, description="Seconds between comparisons of embedded repositories."
    )
    backoff_max_s: float = Field(900.0, gt=0, description="Longest pause after transient failures.")
    retry_after_max_s: float = Field(
        3600.0, gt=0, description="Longest `Retry-After` that is obeyed."
    )
    turn_lease_s: float = Field(
        60.0, gt=0, description="Seconds a turn is owned without heartbeat."
    )
    executor_lease_s: float = Field(
        60.0, gt=0, description="Seconds an executor holds a run without heartbeat."
    )
    run_attempts: int = Field(
        3, ge=1, description="How often a run is given to an executor before it fails."
    )
    push_wait_s: float = Field(5.0, ge=0, description="Seconds a push waits for its outcome.")
    wait_max_s: float = Field(60.0, gt=0, description="Longest `?wait=` of a reader.")

    # limits
    concurrent_syncs: int = Field(8, ge=1, description="Workspaces synced at the same time.")
    check_processes: int = Field(2, ge=1, description="Worker processes that read repositories.")
    check_memory_mb: int = Field(1024, ge=256, description="Address space of such a process.")
    check_deadline_s: float = Field(60.0, gt=0, description="Longest inspection of one commit.")
    fetch_deadline_s: float = Field(300.0, gt=0, description="Longest fetch, all in all.")
    look_deadline_s: float = Field(20.0, gt=0, description="Longest look at a remote, all in all.")
    git_memory_mb: int = Field(700, ge=128, description="Address space of a git child.")
    max_fetch_mb: int = Field(2048, ge=1, description="Largest fetch.")
    max_push_mb: int = Field(2048, ge=1, description="Largest push to the embedded host.")
    max_refs: int = Field(100_000, ge=1, description="Most refs read from a remote.")
    max_watched_branches: int = Field(200, ge=1, description="Most branches a workspace watches.")
    max_history: int = Field(
        200_000, ge=1, description="Commits of history fetched; beyond it the fetch is shallow."
    )
    max_commit_mb: int = Field(
        1024, ge=1, description="Largest sum of file sizes of a commit under `rollouts/`."
    )
    max_artifact_mb: int = Field(512, ge=1, description="Largest artifact of one rollout.")
    max_blob_mb: int = Field(256, ge=1, description="Largest single file outside `data/`.")
    max_webhook_mb: int = Field(25, ge=1, description="Largest webhook body.")
    submits_per_minute: int = Field(120, ge=1, description="Most runs one person submits a minute.")
    max_body_mb: int = Field(4, ge=1, description="Largest API request body.")
    max_dataset_mb: int = Field(5 * KIB, ge=1, le=5 * KIB, description="Largest data set.")
    max_datasets_mb: int = Field(
        100 * KIB, ge=1, description="All data sets of a workspace with their older contents."
    )
    upload_part_mb: int = Field(
        64, ge=1, le=5 * KIB, description="Data sets larger than this are uploaded in such parts."
    )
    dataset_deadline_s: float = Field(900.0, gt=0, description="Longest check of one data set.")
    max_git_children: int = Field(32, ge=1, description="Concurrent pushes and clones served.")

    # retention
    keep_replaced_datasets_days: int = Field(
        30, ge=1, description="Days the content of a replaced data set is kept."
    )
    keep_deliveries_days: int = Field(30, ge=7, description="Days a delivery stays in the log.")
    keep_events_days: int = Field(7, ge=1, description="Days an event can be replayed.")
    keep_versions_days: int | None = Field(
        None,
        ge=1,
        description="Days after which unreferenced versions are removed; default: never.",
    )

    log_format: Literal["text", "json"] = Field("text", description="Form of the log lines.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Log level."
    )

    @field_validator(
        "trusted_proxies",
        "secret_keys",
        "allowed_hosts",
        "credential_dirs",
        "base_models",
        mode="before",
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("min_cli_version", "advised_cli_version")
    @classmethod
    def _check_version(cls, value: str | None) -> str | None:
        try:
            return None if value is None else str(Version(value))
        except InvalidVersion:
            raise ValueError("must be a version such as 0.3.8") from None

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.absolute()  # git children run in other folders

    @field_validator("public_url", "proxy", "s3_endpoint")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be an http or https URL")
        return value.rstrip("/")

    @field_validator("database_url")
    @classmethod
    def _check_database(cls, value: str | None) -> str | None:
        if value and not value.startswith(("postgresql://", "postgres://", "sqlite:///")):
            raise ValueError("must start with postgresql:// or sqlite:///")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments win over the environment, the environment over `gitsync.toml`."""
        path = os.environ.get("GITSYNC_CONFIG", "gitsync.toml")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, Path(path))

    @classmethod
    def load(cls, **arguments: object) -> Self:
        """Read the settings; every problem at once, as a `ConfigError` that names them."""
        given = {key: value for key, value in arguments.items() if value is not None}
        try:
            return cls(**given)  # type: ignore[arg-type]
        except ValidationError as e:
            lines = []
            for problem in e.errors(include_url=False, include_input=False):
                name = ".".join(str(part) for part in problem["loc"])
                lines.append(f"GITSYNC_{name.upper()}: {problem['msg']}")
            raise ConfigError("The settings are not valid. " + "; ".join(lines)) from None
        except (OSError, ValueError) as e:
            raise ConfigError(f"The settings file cannot be read: {e}") from e

    @property
    def url(self) -> str:
        """The public URL without a final slash."""
        return self.public_url or f"http://{self.host}:{self.port}"

    @property
    def sqlalchemy_url(self) -> str:
        """The database URL as SQLAlchemy writes it."""
        url = self.database_url or f"sqlite:///{self.data_dir.absolute() / 'gitsync.db'}"
        for prefix in ("postgresql://", "postgres://"):
            if url.startswith(prefix):
                return "postgresql+psycopg://" + url.removeprefix(prefix)
        return url

    @property
    def artifact_url(self) -> str:
        """The artifact store: an `s3://` URL or an absolute folder."""
        store = self.artifact_store or str(self.data_dir / "artifacts")
        return store if "://" in store else str(Path(store).absolute())
