"""Each rule for configs in at least two spellings, beside what must stay silent."""

from __future__ import annotations

import pytest

from gitsync.check import inspect
from tests.check.oracles import SDK_CODES, config_loads
from tests.check.trees import BENCHMARK, EVAL, TRAINING, outer, workspace

EV, TR, BE = "configs/eval/demo.toml", "configs/training/demo.toml", "configs/benchmark/demo.toml"


def head(*lines: str, rollout: str = "demo") -> str:
    """An evaluation config with these lines after the first four keys."""
    return "\n".join(
        [
            "[experiment]",
            f'rollout = "{rollout}"',
            'entrypoint = "main.py"',
            'model_path = "openai/gpt-5-mini"',
            'dataset = "sums"',
            *lines,
            "[secrets]",
            'required = ["OPENAI_API_KEY"]',
            "",
        ]
    )


def bench(*lines: str) -> str:
    """The good benchmark config, which has 9 lines, with these after it."""
    return BENCHMARK + "\n".join(lines) + "\n"


CONFIGS: dict[str, tuple[str, str, list[str]]] = {
    # toml-syntax
    "bom": (EV, "\ufeff" + EVAL, ["toml-syntax 1"]),
    "repeated-table": (EV, EVAL + "[experiment]\n", ["toml-syntax 12"]),
    "bare-text": (TR, TRAINING.replace('"demo"', "demo"), ["toml-syntax 2"]),
    "toml-1.1-is-none": (EV, EVAL + "[env]\nx = {a = 1,}\n", ["toml-syntax 13"]),
    "dotted-over-value": (TR, TRAINING + "lr.x = 1\n", ["toml-syntax 9"]),
    # sections
    "no-experiment": (EV, "[secrets]\nrequired = []\n", ["missing-section 1"]),
    "empty-training": (TR, "", ["missing-section 1"]),
    "empty-eval": (EV, "# nothing\n", ["missing-section 1", "missing-section 1"]),
    "empty-benchmark": (BE, "", ["missing-section 1", "missing-section 1"]),
    "key-at-top": (EV, 'title = "x"\n' + EVAL, ["unknown-section 1"]),
    "array-of-unknown": (TR, TRAINING + "[[runs]]\na = 1\n[[runs]]\n", ["unknown-section 9"]),
    "deep-unknown": (EV, EVAL + "[rollout.env]\nA = 1\n[rollout]\n", ["unknown-section 12"]),
    "advanced-in-benchmark": (BE, bench("[advanced]"), ["unknown-section 11"]),
    "evaluation-in-training": (TR, TRAINING + "[evaluation]\nlimit = 1\n", ["unknown-section 9"]),
    "inline-unknown": (EV, "llm = {a = 1}\n" + EVAL, ["unknown-section 1"]),
    # missing-key
    "dotted-misses": (
        EV,
        'experiment.rollout = "demo"\nexperiment.entrypoint = "main.py"\n'
        'experiment.model_path = "openai/x"\nsecrets.required = ["OPENAI_API_KEY"]\n',
        ["missing-key 1"],
    ),
    "inline-misses": (
        TR,
        '# first\nexperiment = {rollout = "demo", entrypoint = "main.py"}\n',
        ["missing-key 2", "missing-key 2"],
    ),
    "required-misses": (TR, TRAINING + "[secrets]\n", ["missing-key 9"]),
    "model-misses": (BE, '[experiment]\nbenchmark = "x"\n[[agents]]\n', ["missing-key 3"]),
    "type-misses": (
        BE,
        '[experiment]\nbenchmark = "x"\n[[agents]]\n[agents.model]\nmodel = "m"\n',
        ["missing-key 4"],
    ),
    "endpoint-misses": (
        BE,
        '[experiment]\nbenchmark = "x"\n[[agents]]\nmodel = {type = "endpoint"}\n',
        ["missing-key 4"] * 3,
    ),
    "second-agent-misses": (BE, bench("[[agents]]", 'harness = "codex"'), ["missing-key 11"]),
    "benchmark-misses": (BE, BENCHMARK.replace('benchmark = "gaia"', ""), ["missing-key 1"]),
    "hosted-misses": (
        BE,
        BENCHMARK.replace('"provider"', '"hosted"'),
        ["missing-key 7", "missing-key 7", "unknown-key 9", "unknown-key 10"],
    ),
    # unknown-key
    "quoted-unknown": (EV, head('"commit sha" = "x"'), ["unknown-key 6"]),
    "nested-unknown": (EV, head("[experiment.extra]", "a = 1"), ["unknown-key 6"]),
    "secrets-unknown": (EV, EVAL + 'optional = ["A"]\n', ["unknown-key 12"]),
    "sampling-in-training": (TR, TRAINING + "rollout_top_p = 1.0\n", ["unknown-key 9"]),
    "agent-unknown": (BE, BENCHMARK.replace("harness =", "harnes ="), ["unknown-key 5"]),
    "execution-unknown": (BE, bench("[execution]", "retries = 1"), ["unknown-key 12"]),
    "provider-with-url": (BE, bench('base_url = "https://x"'), ["unknown-key 11"]),
    # wrong-type
    "number-for-text": (EV, head().replace('"sums"', "5"), ["wrong-type 5"]),
    "date-for-text": (EV, head("branch = 2020-01-01"), ["wrong-type 6"]),
    "env-table": (EV, EVAL + "[env.INNER]\nA = 1\n", ["wrong-type 12"]),
    "env-number": (TR, TRAINING + '[env]\nA = 1\nB = "1"\n', ["wrong-type 10"]),
    "env-is-text": (TR, 'env = "A=1"\n' + TRAINING, ["wrong-type 1"]),
    "section-array": (EV, head() + "[[evaluation]]\nlimit = 1\n", ["wrong-type 8"]),
    "required-mixed": (EV, EVAL.replace('["OPENAI', '[1, "OPENAI'), ["wrong-type 11"]),
    "required-lines": (
        EV,
        EVAL.replace('["OPENAI_API_KEY"]', '[\n "OPENAI_API_KEY",\n 1,\n true,\n]'),
        ["wrong-type 13", "wrong-type 14"],
    ),
    "required-table": (TR, TRAINING + "[secrets]\nrequired = {A = 1}\n", ["wrong-type 10"]),
    "categories-text": (BE, bench("[tasks]", 'categories = "x"'), ["wrong-type 12"]),
    "task-names-number": (BE, bench("[tasks]", "task_names = [\n1]"), ["wrong-type 13"]),
    "one-agent-table": (BE, BENCHMARK.replace("[[agents]]", "[agents]"), ["wrong-type 4"]),
    "agents-of-numbers": (BE, '[experiment]\nbenchmark="x"\n' + "", ["missing-section 1"]),
    "agent-is-number": (BE, 'agents = [\n1]\n[experiment]\nbenchmark="x"\n', ["wrong-type 2"]),
    "harness-number": (BE, BENCHMARK.replace('"codex"', "1"), ["wrong-type 5"]),
    "model-is-text": (
        BE,
        '[experiment]\nbenchmark = "x"\n[[agents]]\nmodel = "m"\n',
        ["wrong-type 4"],
    ),
    "model-number": (BE, BENCHMARK.replace('"openai/gpt-5-mini"', "5"), ["wrong-type 9"]),
    "verifier-text": (BE, bench("[verifier]", 'required = "A"'), ["wrong-type 12"]),
    # empty-value, placeholder-left
    "blank": (EV, head().replace('"sums"', '" \\t"'), ["empty-value 5"]),
    "blank-literal": (TR, TRAINING.replace('"sums"', "''"), ["empty-value 5"]),
    "blank-benchmark": (BE, BENCHMARK.replace('"gaia"', '""'), ["empty-value 2"]),
    "placeholder-inside": (
        EV,
        head().replace('"sums"', '"my-<name here>"'),
        ["placeholder-left 5"],
    ),
    "placeholder-branch": (EV, head('branch = "<branch-1_x>"'), ["placeholder-left 6"]),
    "no-placeholder": (EV, head('branch = "a<b"', ""), []),
    "no-placeholder-digit": (TR, TRAINING.replace('"sums"', '"<1>"'), []),
    "placeholder-model": (
        BE,
        BENCHMARK.replace("openai/gpt-5-mini", "<m>"),
        ["placeholder-left 9"],
    ),
    "placeholder-benchmark": (BE, BENCHMARK.replace("gaia", "<key>"), ["placeholder-left 2"]),
    "placeholder-url": (
        BE,
        bench().replace('"provider"', '"endpoint"') + 'base_url = "https://<host>/v1"\n',
        ["placeholder-left 12"],
    ),
    # branches and commits
    "both-reversed": (EV, head('commit_sha = "abcdef1"', 'branch = "x"'), ["branch-and-commit 7"]),
    "both-bad": (
        TR,
        TRAINING.replace("\n[training]", 'branch = "a b"\ncommit_sha = "x"\n[training]'),
        ["branch-and-commit 7", "invalid-branch 6", "invalid-commit 7"],
    ),
    "tab-in-branch": (EV, head('branch = "a\\tb"'), ["invalid-branch 6"]),
    "branch-of-spaces": (EV, head("branch = ' '"), ["invalid-branch 6"]),
    "long-commit": (EV, head(f'commit_sha = "{"a" * 41}"'), ["invalid-commit 6"]),
    "empty-commit": (EV, head('commit_sha = ""'), ["invalid-commit 6"]),
    "good-commit": (EV, head(f'commit_sha = "{"aB" * 20}"'), []),
    # env names
    "env-dash": (EV, EVAL + '[env]\n"LOG-LEVEL" = "x"\n', ["invalid-env-name 13"]),
    "env-digit": (TR, 'env = {1A = "x"}\n' + TRAINING, ["invalid-env-name 1"]),
    "env-reserved": (TR, TRAINING + '[env]\n_OSMOSIS_ = "x"\n', ["reserved-env-name 10"]),
    "env-reserved-dotted": (EV, 'env._OSMOSIS_A = ""\n' + EVAL, ["reserved-env-name 1"]),
    "env-good": (EV, EVAL + '[env]\n_A1 = "x"\n_OSMOSIS = "y"\n', []),
    "agent-env-name": (BE, bench("[agents.env]", 'a = "x"'), ["invalid-env-name 12"]),
    "agent-env-reserved": (BE, bench("[agents.env]", '_OSMOSIS_A = "x"'), ["reserved-env-name 12"]),
    # secrets
    "secret-underscore": (
        TR,
        TRAINING + '[secrets]\nrequired = ["_A"]\n',
        ["invalid-secret-name 10"],
    ),
    "judge-name": (
        BE,
        bench("[execution]", 'judge_api_key_secret = "judge"'),
        ["invalid-secret-name 12"],
    ),
    "verifier-name": (BE, bench("[verifier]", 'required = ["A", "b"]'), ["invalid-secret-name 12"]),
    "model-secret-name": (
        BE,
        BENCHMARK.replace("OPENAI_API", "openai"),
        ["invalid-secret-name 10"],
    ),
    "triple-secret": (
        TR,
        TRAINING
        + "[secrets]\nrequired = [\n'OPENAI_API_KEY',\n'OPENAI_API_KEY',\n'OPENAI_API_KEY']\n",
        ["duplicate-secret 12"],
    ),
    "benchmark-merges": (BE, bench("[secrets]", 'required = ["OPENAI_API_KEY"]'), []),
    "overlap": (
        TR,
        'env.A = "x"\n' + TRAINING + "[secrets]\nrequired = ['A']\n",
        ["env-secret-overlap 1"],
    ),
    "overlap-own-env": (
        BE,
        bench("[agents.env]", 'OPENAI_API_KEY = "x"', "[env]", 'OPENAI_API_KEY = "x"'),
        ["env-secret-overlap 12"],
    ),
    "overlap-judge": (
        BE,
        bench("[execution]", 'judge_api_key_secret = "J"', "[env]", 'J = "x"'),
        ["env-secret-overlap 14"],
    ),
    "overlap-verifier": (
        BE,
        bench("[verifier]", 'required = ["V", "V"]', "[env]", 'V = "x"'),
        ["env-secret-overlap 14"],
    ),
    "overlap-mswea": (
        BE,
        BENCHMARK.replace("codex", "mini-swe-agent") + '[env]\nMSWEA_API_KEY = "x"\n',
        ["env-secret-overlap 12"],
    ),
    "no-overlap-with-required": (
        BE,
        bench("[secrets]", 'required = ["R"]', "[env]", 'R = "x"'),
        [],
    ),
    "seventeen": (
        BE,
        bench("[secrets]", "required = [", *(f'"S{n}",' for n in range(17)), "]"),
        ["too-many-secrets 12"],
    ),
    "sixteen": (BE, bench("[verifier]", f"required = {[f'S{n}' for n in range(16)]}"), []),
    "seventeen-verifier": (
        BE,
        bench("[verifier]", f"required = {[f'S{n}' for n in range(17)]}"),
        ["too-many-secrets 12"],
    ),
    "reserved": (
        BE,
        BENCHMARK.replace("OPENAI_API_KEY", "DAYTONA_API_URL"),
        ["reserved-secret-name 10"],
    ),
    "header": (
        BE,
        bench("base_url = 'https://x'", 'extra_headers.AUTHORIZATION = "x"').replace(
            '"provider"', '"endpoint"'
        ),
        ["authorization-header 12"],
    ),
    "header-table": (
        BE,
        bench(
            "base_url = 'https://x'", "[agents.model.extra_headers]", "authorization = 'x'", "Y = 1"
        ).replace('"provider"', '"endpoint"'),
        ["authorization-header 13", "wrong-type 14"],
    ),
    "cursor-without": (BE, BENCHMARK.replace("codex", "cursor-cli"), ["harness-key 5"]),
    "cursor-other": (
        BE,
        BENCHMARK.replace('"codex"', '"cursor-cli"\nharness_api_key_secret = "MY_KEY"'),
        ["harness-key 6"],
    ),
    "codex-with": (
        BE,
        BENCHMARK.replace('"codex"', '"codex"\nharness_api_key_secret = "CURSOR_API_KEY"'),
        ["harness-key 6"],
    ),
    # benchmark shape
    "no-agents": (BE, "agents = [\n]\n[experiment]\nbenchmark = 'x'\n", ["agent-count 1"]),
    "nine-agents": (
        BE,
        "[experiment]\nbenchmark = 'x'\n"
        + "[[agents]]\nmodel={type='hosted',base_model='b',lora_model_name='l'}\n" * 9,
        ["agent-count 19"],
    ),
    "task-set": (BE, bench("[tasks]", "task_set = 'all'"), ["invalid-choice 12"]),
    "type-typo": (BE, BENCHMARK.replace('"provider"', '"providr"'), ["invalid-choice 8"]),
    "blank-name": (BE, bench("[tasks]", "task_names = ['a', ' ']"), ["blank-selector 12"]),
    "blank-category": (BE, bench("[tasks]", "categories = ['',\n'\\t']"), ["blank-selector 12"]),
    "hle": (BE, BENCHMARK.replace("gaia", "HLE"), ["hle-without-parity 2"]),
    "hle-parity": (BE, BENCHMARK.replace("gaia", "Hle") + "[tasks]\ntask_set = 'parity'\n", []),
    # values
    "float-limit": (
        EV,
        head("[evaluation]", "limit = 2.0", "n = true"),
        ["invalid-value 7", "invalid-value 8"],
    ),
    "endless-threshold": (
        EV,
        head("[evaluation]", "pass_threshold = 1" + "0" * 400, "n = 0"),
        ["invalid-value 7", "invalid-value 8"],
    ),
    "inf-threshold": (EV, head("[evaluation]", "pass_threshold = inf"), ["invalid-value 7"]),
    "text-timeout": (EV, head("[evaluation]", "grader_timeout_s = '9'"), ["invalid-value 7"]),
    "zero-timeout": (EV, head("[evaluation]", "agent_workflow_timeout_s = 0"), ["invalid-value 7"]),
    "negative-limit": (EV, head("[evaluation]", "limit = -1"), ["questionable-value 7"]),
    "threshold-two": (EV, head("[evaluation]", "pass_threshold = 2"), ["questionable-value 7"]),
    "good-values": (
        EV,
        head("[evaluation]", "n = 1", "pass_threshold = 0", "grader_timeout_s = 0.5"),
        [],
    ),
    "lr-text": (TR, TRAINING.replace("1e-5", '"1e-5"'), ["questionable-value 8"]),
    "lr-zero": (TR, TRAINING.replace("1e-5", "0"), ["questionable-value 8"]),
    "lr-boolean": (TR, TRAINING.replace("1e-5", "true"), ["questionable-value 8"]),
    "epochs-float": (TR, TRAINING + "total_epochs = 1.0\n", ["questionable-value 9"]),
    "top-p-zero": (TR, TRAINING + "[sampling]\nrollout_top_p = 0\n", ["questionable-value 10"]),
    "temperature-nan": (
        TR,
        TRAINING + "[sampling]\nrollout_temperature = nan\n",
        ["questionable-value 10"],
    ),
    "interval-zero": (
        TR,
        TRAINING + "[checkpoints]\neval_interval = 0\n",
        ["questionable-value 10"],
    ),
    "training-timeout": (TR, TRAINING + "grader_timeout_s = -1\n", ["questionable-value 9"]),
    "retries": (BE, bench("[execution]", "max_retries = -1"), ["questionable-value 12"]),
    "multiplier": (BE, bench("[execution]", "timeout_multiplier = 0.0"), ["questionable-value 12"]),
    "attempts": (BE, bench("[execution]", "attempts_per_task = 0"), ["questionable-value 12"]),
    "bench-threshold": (
        BE,
        bench("[execution]", "pass_threshold = 1.5"),
        ["questionable-value 12"],
    ),
    "dataset-windows": (TR, TRAINING.replace('"sums"', "'data\\sums'"), ["dataset-is-path 5"]),
    "dataset-suffix": (EV, head().replace('"sums"', '"sums.csv"'), ["dataset-is-path 5"]),
    # models
    "claude-without": (
        EV,
        head().replace("openai/gpt", "anthropic/c"),
        ["missing-provider-secret 7"],
    ),
    "own-base": (
        EV,
        head("[env]", 'MY_API_BASE = "x"').replace("openai/gpt", "groq/x"),
        ["unused"],
    ),
    "key-as-env": (
        EV,
        head("[env]", 'XAI_API_KEY = "x"').replace("openai/gpt", "xai/g"),
        ["unused"],
    ),
    "bare-model": (
        EV,
        head().replace("openai/gpt-5-mini", "gpt-5-mini"),
        ["model-without-provider 4"],
    ),
    "train-gemini": (TR, TRAINING.replace("Qwen/", "gemini/"), ["provider-model-in-training 4"]),
    "train-mistral-word": (TR, TRAINING.replace("Qwen/", "mistralai/"), []),
    # policy calls
    "only-batch": (TR, TRAINING + "rollout_batch_size = 33\n", ["too-many-policy-calls 9"]),
    "only-samples": (TR, TRAINING + "n_samples_per_prompt = 9\n", ["too-many-policy-calls 9"]),
    "edge": (TR, TRAINING + "n_samples_per_prompt = 8\nrollout_batch_size = 32\n", []),
    "not-judged": (
        TR,
        TRAINING + "n_samples_per_prompt = 0\nrollout_batch_size = 1000\n",
        ["questionable-value 9"],
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_config(name, tmp_path):
    path, text, expected = CONFIGS[name]
    wanted = sorted(f"{e.split()[0]} {path}:{e.split()[1]}" for e in expected if e != "unused")
    found = outer({path: text})
    assert sorted(found) == wanted
    refused = any(f.split()[0] in SDK_CODES for f in found if f.split(" ")[1].startswith(path))
    assert config_loads(path.split("/")[1], text.encode(), tmp_path) is not refused


@pytest.mark.parametrize("kind", ["eval", "training", "benchmark"])
def test_default_files_are_judged_only_by_the_loader(kind):
    text = {"eval": EVAL, "training": TRAINING, "benchmark": BENCHMARK}[kind]
    text = text.replace('"demo"', '"<rollout>"').replace('"sums"', '""').replace("gaia", "hle")
    text += {"eval": "", "training": "n_samples_per_prompt = 9000\n", "benchmark": ""}[kind]
    path = f"configs/{kind}/default.toml"
    assert outer({path: text}) == []
    assert outer({path: text + "[other]\n"}) == [
        f"unknown-section {path}:{text.count(chr(10)) + 1}"
    ]


def test_a_key_of_another_section_is_told_its_home():
    report = inspect(workspace({EV: head("limit = 3", "batchsize = 3")}))
    messages = [f.message for f in report.findings]
    assert "It belongs in `[evaluation]`" in messages[0]
    assert "did you mean" not in messages[1].lower()


def test_a_key_outside_of_all_sections_is_told_its_home():
    report = inspect(workspace({"configs/eval/demo.toml": 'limit = 4\nrollout = "x"\n' + EVAL}))
    homes = {f.subject: f.message for f in report.findings if f.code == "unknown-section"}
    assert "It belongs in `[evaluation]`." in homes["limit"]
    assert "It belongs in `[experiment]`." in homes["rollout"]
    table = inspect(workspace({"configs/eval/demo.toml": EVAL + "[rollout]\n"}))
    assert "older version" in table.findings[0].message


def test_columns_count_characters_and_point_at_value_or_key():
    text = EVAL + '[env]\n"é x" = "y" \n'
    report = inspect(workspace({EV: text}))
    assert [(f.code, f.line, f.column) for f in report.findings] == [("invalid-env-name", 13, 1)]
    text = EVAL.replace('["OPENAI', '["é", 5, "OPENAI')
    report = inspect(workspace({EV: text}))
    assert [(f.code, f.line, f.column) for f in report.findings] == [
        ("invalid-secret-name", 11, 13),
        ("wrong-type", 11, 18),
    ]


def test_columns_count_characters_in_long_lines_too():
    line = "required = [" + '"É", ' * 5000 + '"OPENAI_API_KEY", "bad"]'
    text = EVAL.replace('required = ["OPENAI_API_KEY"]', line)
    found = [f for f in inspect(workspace({EV: text})).findings if f.subject == "bad"]
    assert [(f.code, f.line, f.column) for f in found] == [
        ("invalid-secret-name", 11, line.index('"bad"') + 1)
    ]
