from __future__ import annotations

import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from core import metrics
from core.metrics import Cause, ModelLabels, Rejection
from ir.errors import Reason, Stage
from ir.usage import Usage, UsageSource


class Outcome(StrEnum):
    OK = "ok"


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"poolgate_{name}", labels) or 0.0


def test_only_models_of_the_catalogue_become_labels() -> None:
    labels = ModelLabels(limit=2)
    labels.allow(["claude", "gpt"])
    assert [labels("claude"), labels("gpt"), labels("secret prompt as a model name")] == ["claude", "gpt", "other"]


def test_beyond_the_cap_models_share_a_label_for_good() -> None:
    labels = ModelLabels(limit=3)
    labels.allow(["a", "b"])
    labels.allow(["b", "c", "d"])
    labels.allow(["e"])
    assert [labels(name) for name in "abcde"] == ["a", "b", "c", "other", "other"]


def test_a_request_is_counted_with_its_time() -> None:
    metrics.allow_models(["metric-model"])
    labels = {"protocol": "chat", "model": "metric-model", "stream": "true", "outcome": "ok"}
    before = value("requests_total", **labels)
    metrics.count_request("chat", "metric-model", True, Outcome.OK, 3.0, 0.3)
    assert value("requests_total", **labels) == before + 1
    assert value("request_duration_seconds_sum", protocol="chat", stream="true", outcome="ok") >= 3.0
    assert value("time_to_first_token_seconds_bucket", protocol="chat", model="metric-model", le="0.25") == 0
    assert value("time_to_first_token_seconds_bucket", protocol="chat", model="metric-model", le="0.5") == 1


def test_a_protocol_or_model_that_nobody_knows_is_other() -> None:
    labels = {"protocol": "other", "model": "other", "stream": "false", "outcome": "ok"}
    before = value("requests_total", **labels)
    metrics.count_request("telnet", "pg_live_looks_like_a_key", False, Outcome.OK, 1.0, None)
    assert value("requests_total", **labels) == before + 1


def test_unknown_token_counts_are_left_out() -> None:
    metrics.allow_models(["token-model"])
    metrics.count_tokens("token-model", Usage(input_uncached=7, output=3, source=UsageSource.ESTIMATED))
    shared = {"model": "token-model", "source": "estimated"}
    assert value("tokens_total", type="input", **shared) == 7
    assert value("tokens_total", type="output", **shared) == 3
    assert REGISTRY.get_sample_value("poolgate_tokens_total", {"type": "cache_read", **shared}) is None


def test_what_runs_now_goes_up_and_down() -> None:
    before = value("inflight_requests", protocol="messages", stream="true")
    metrics.change_inflight("messages", True, 1)
    assert value("inflight_requests", protocol="messages", stream="true") == before + 1
    metrics.change_inflight("messages", True, -1)
    assert value("inflight_requests", protocol="messages", stream="true") == before


@pytest.mark.parametrize(("reason", "failures"), [(Rejection.BAD_KEY, 1), (Rejection.EXPIRED, 1), (Rejection.BODY, 0)])
def test_a_bad_key_is_an_authentication_failure(reason: Rejection, failures: int) -> None:
    rejected, before = value("rejected_total", reason=reason.value), value("auth_failures_total")
    metrics.count_rejected(reason)
    assert value("rejected_total", reason=reason.value) == rejected + 1
    assert value("auth_failures_total") == before + failures


def test_attempts_switches_and_breaks_are_counted() -> None:
    metrics.count_attempt(None, Stage.END)
    metrics.count_attempt(Reason.QUOTA, Stage.HEADERS)
    metrics.count_switch(Reason.QUOTA)
    metrics.count_interrupted("chat", Cause.IDLE)
    metrics.set_generation(41)
    assert value("attempts_total", reason="ok", stage="end") >= 1
    assert value("attempts_total", reason="quota", stage="headers") >= 1
    assert value("switches_total", reason="quota") >= 1
    assert value("interrupted_streams_total", protocol="chat", cause="idle") >= 1
    assert value("config_generation") == 41


def test_processes_are_added_up_and_the_oldest_configuration_is_shown(tmp_path: Path) -> None:
    program = "import sys; from core import metrics; metrics.count_switch(metrics.Reason.QUOTA); "
    program += "metrics.set_generation(int(sys.argv[1])); print(flush=True); sys.stdin.read()"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(version)],
            env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for version in (6, 5)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"\n"
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(tmp_path))  # type: ignore[no-untyped-call]
        assert registry.get_sample_value("poolgate_switches_total", {"reason": "quota"}) == 2
        assert registry.get_sample_value("poolgate_config_generation", {}) == 5
    finally:
        for worker in workers:
            worker.communicate(timeout=10)


@pytest.mark.parametrize(("reason", "counted"), [(Reason.PROTOCOL, 1), (Reason.CLIENT_OUTDATED, 1), (Reason.CUT, 0)])
def test_what_we_do_not_understand_is_counted_for_an_alarm(reason: Reason, counted: int) -> None:
    def count() -> float:
        return REGISTRY.get_sample_value("poolgate_protocol_errors_total", {"reason": reason.value}) or 0

    before = count()
    metrics.count_attempt(reason, Stage.HEADERS)
    assert count() - before == counted
