"""``manage.py up`` as an operator meets it: real processes, real engines, real signals."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.plugins.instance import Instance, manage

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """One installation that several tests look at; none of them ends it."""
    with Instance(tmp_path_factory.mktemp("up") / "data", "--workers", "2") as running:
        yield running


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_once_the_ready_file_is_there_everything_answers(instance: Instance) -> None:
    assert instance.get("/livez")[0] == 200
    assert instance.get("/sign-in")[0] == 200
    assert instance.ready["pid"] == instance.process.pid
    assert instance.ready["api_key"] is None
    assert instance.ready["simulator_url"] is None
    assert "There is no account yet" in instance.output


def test_metrics_are_for_the_bearer_of_the_token_alone(instance: Instance) -> None:
    token = instance.ready["metrics_token"]
    assert instance.ready["metrics_url"] == instance.ready["base_url"] + "/metrics"
    assert instance.get("/metrics")[0] == 401
    assert instance.get("/metrics", Authorization=f"Bearer {token[:-1]}")[0] == 401
    assert instance.get("/metrics", Authorization=f"Bearer {token}")[0] == 200


def test_what_holds_credentials_is_readable_by_its_owner_alone(instance: Instance) -> None:
    files = [instance.ready_file, *(instance.data_dir / name for name in ("secrets.json", "engines.json"))]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3


def test_no_password_shows_on_a_command_line_or_in_a_log(instance: Instance) -> None:
    secrets = re.findall(r'": "(.{20,})"', (instance.data_dir / "secrets.json").read_text())
    assert len(secrets) == 6
    shown = "".join(" ".join(process.cmdline()) for process in instance.processes())
    shown += "".join(log.read_text() for log in (instance.data_dir / "logs").iterdir())
    assert [secret for secret in secrets if secret in shown] == []


def test_other_commands_find_the_engines_of_the_data_dir(instance: Instance) -> None:
    missing = manage(instance.data_dir, "preflight")
    assert missing.returncode == 1
    assert "no API key" in missing.stdout
    made = manage(instance.data_dir, "issue_key", "--team", "Ops", "--name", "laptop", "--create-team")
    assert made.returncode == 0, made.stderr
    assert re.fullmatch(r"pg_live_\S+\n", made.stdout)
    assert "no API key" not in manage(instance.data_dir, "preflight").stdout


def test_the_owner_gets_a_new_one_time_password(instance: Instance) -> None:
    reset = manage(instance.data_dir, "owner", "--reset")
    assert reset.returncode == 0
    assert instance.ready["admin_password"] not in reset.stdout
    assert re.search(r"admin .* \S{20}$", reset.stdout.strip())


def test_a_second_start_on_the_same_data_dir_is_refused(instance: Instance) -> None:
    second = manage(instance.data_dir, "up", "--port", "0")
    assert second.returncode == 1
    assert f"already runs on {instance.data_dir} (process {instance.process.pid})" in second.stderr


@pytest.mark.parametrize("word", ["--name web-1", "beat", "valkey-server", "postgres"])
def test_a_dead_child_is_started_again_and_reported(instance: Instance, word: str) -> None:
    dead = instance.child(word)
    dead.kill()
    assert eventually(lambda: [child.pid for child in instance.children(word)] not in ([], [dead.pid]))
    assert eventually(lambda: manage(instance.data_dir, "migrate", "--check").returncode == 0)
    assert eventually(lambda: instance.get("/livez")[0] == 200)
    assert "was ended by SIGKILL; starting it again in 0.5 s" in instance.output


def test_sigterm_leaves_no_process_and_the_next_start_is_quick(tmp_path: Path) -> None:
    with Instance(tmp_path / "data") as first:
        assert first.ready["admin_password"] in first.output
        assert first.stop(signal.SIGTERM) == 0
        assert first.processes() == []
        assert not first.ready_file.exists()
        first.start()
        assert first.seconds < 10
        assert first.ready["admin_password"] is None
        assert first.stop(signal.SIGINT) == 0
        assert first.processes() == []


def test_a_signal_while_starting_leaves_no_process(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "data")
    instance.launch()
    assert eventually(lambda: "Preparing the database" in instance.output)
    assert instance.stop(signal.SIGINT) == 130
    assert "Interrupted while starting" in instance.output
    assert eventually(lambda: instance.processes() == [], 2)


def test_after_kill_9_the_children_die_and_the_next_start_works(tmp_path: Path) -> None:
    with Instance(tmp_path / "data") as instance:
        assert len(instance.processes()) >= 6
        instance.process.kill()
        instance.process.wait()
        assert eventually(lambda: instance.processes() == [])
        instance.ready_file.unlink()
        instance.start()
        assert instance.get("/livez")[0] == 200


def test_a_start_right_after_kill_9_takes_over_from_engines_that_still_run(tmp_path: Path) -> None:
    with Instance(tmp_path / "data") as instance:
        stuck = [instance.child("postgres"), instance.child("valkey-server")]
        for process in stuck:
            process.suspend()
        instance.process.kill()
        instance.process.wait()
        for process in stuck:
            process.resume()
        instance.ready_file.unlink()
        instance.start()
        assert not {process.pid for process in stuck} & {process.pid for process in instance.processes()}


def test_two_instances_run_side_by_side(tmp_path: Path, instance: Instance) -> None:
    with Instance(tmp_path / "data") as other:
        assert other.ready["base_url"] != instance.ready["base_url"]
        assert other.get("/livez")[0] == instance.get("/livez")[0] == 200
        assert other.ready["metrics_token"] != instance.ready["metrics_token"]
        crossed = other.get("/metrics", Authorization=f"Bearer {instance.ready['metrics_token']}")
        assert crossed[0] == 401


def test_a_taken_port_is_named_with_a_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = manage(tmp_path / "data", "up", "--port", str(port))
    assert refused.returncode == 1
    assert f"Port {port} on 127.0.0.1 cannot be used" in refused.stderr
    assert f"--port {port + 1}" in refused.stderr
    assert not (tmp_path / "data" / "postgres").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"SECRET_KEY": "change-me" * 6}, "SECRET_KEY still holds an example value"),
        ({"POOLGATE_KEY_PEPPER": "pepper-of-24-characters"}, "POOLGATE_KEY_PEPPER is shorter than 32 characters"),
        ({"POOLGATE_ENCRYPTION_KEYS": "x" * 44}, "POOLGATE_ENCRYPTION_KEYS holds something that is not a Fernet key"),
    ],
)
def test_a_public_address_is_refused_with_bad_secrets(tmp_path: Path, change: dict[str, str], complaint: str) -> None:
    refused = manage(tmp_path / "data", "up", "--host", "0.0.0.0", "--port", "0", **change)
    assert refused.returncode == 1
    assert complaint in refused.stderr
    assert next(iter(change.values())) not in refused.stderr


def test_empty_secrets_are_refused_when_both_engines_are_given(tmp_path: Path) -> None:
    given = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "REDIS_URL": "redis://127.0.0.1:1/0"}
    refused = manage(tmp_path / "data", "up", "--port", "0", **given)
    assert refused.returncode == 1
    assert "SECRET_KEY is empty" in refused.stderr
    assert not (tmp_path / "data" / "secrets.json").exists()


def test_a_child_that_cannot_start_ends_the_start_with_its_log(tmp_path: Path) -> None:
    given = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    failed = manage(tmp_path / "data", "up", "--port", "0", **given)
    assert failed.returncode == 1
    assert "The database could not be prepared" in failed.stdout
    assert "refused" in failed.stdout
