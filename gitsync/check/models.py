"""Which model a config names, and whether its kind of run can use it."""

from __future__ import annotations

from collections.abc import Iterator

from gitsync.check import aging
from gitsync.check.config import Config
from gitsync.check.found import finding, shown
from gitsync.model import Finding


def provider_of(model_path: str) -> str | None:
    """The provider whose key a model path needs; None for base models and unknown ones."""
    provider, slash, _ = model_path.partition("/")
    return provider if slash and provider in aging.providers() else None


def check_model(config: Config) -> Iterator[Finding]:
    """Findings about `model_path`; none for default files and benchmarks."""
    model = config.text("model_path")
    if model is None or config.document is None or config.is_default:
        return
    at = config.document.value("experiment", "model_path")
    provider = provider_of(model)
    if config.kind == "training":
        base = tuple(aging.rules("providers")["base_models"]["prefixes"])
        if provider and not model.startswith(base):
            yield finding(
                "provider-model-in-training",
                config.path,
                f"`{shown(model)}` is a hosted model, and those cannot be trained. Name a base "
                "model; `osmosis model list --type base` lists them.",
                at=at,
                subject=model,
            )
        return
    if "/" not in model:
        yield finding(
            "model-without-provider",
            config.path,
            f"`{shown(model)}` names no provider, so one is guessed. Write `provider/model`.",
            at=at,
            subject=model,
        )
    required, env = config.required, config.table("env")
    if provider is None or required is None:
        return
    key = aging.providers()[provider]
    if key in required or key in env or any(k.endswith(("_API_BASE", "_BASE_URL")) for k in env):
        return
    yield finding(
        "missing-provider-secret",
        config.path,
        f"`{shown(model)}` needs `{key}`, which is not asked for. Add it to `required`.",
        at=config.document.value("secrets", "required"),
        subject=key,
    )
