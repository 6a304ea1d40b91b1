"""``manage.py up``: a whole installation from one command, started in order and stopped in order.

Start: lock of the data dir, secrets, listening socket, engines (and the simulator), database, owner and demo, then
server processes, worker and beat; the card is shown when all of them answer. Stop: the socket closes, streams drain
up to a bound, then everything else, the engines last. The database work happens in a child (``manage.py prepare``):
this process never opens a database connection, so there is nothing it could hold across a fork.
"""

from __future__ import annotations

import fcntl
import http.client
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from msgspec import Struct
from prometheus_client.multiprocess import mark_process_dead

from config import embedded, environment
from config.card import Ready, card
from config.supervisor import Child, ChildFailed, Supervisor, failure

ADMIN = "admin"
DRAIN_SECONDS = 30
START_SECONDS = 60.0
BACKLOG = 2048
INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended


class Refused(Exception):
    """``up`` will not start; the message says why and what to do."""


class Interrupted(Exception):
    """A signal came while starting."""


class Options(Struct, frozen=True):
    """The options of the command. ``port`` 0 takes a free one."""

    host: str
    port: int
    data_dir: Path
    workers: int = 1
    demo: bool = False
    ready_file: Path | None = None


class Installation:
    """One run of ``up``. ``run`` returns the exit code once everything has stopped."""

    def __init__(self, options: Options, out: TextIO) -> None:
        self._options = options
        self._out = out
        self._supervisor = Supervisor(self._say, self._bury)
        self._engines: list[embedded.Engine] = []
        self._children: list[Child] = []
        self._signals = 0
        self._starting = True

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        options = self._options
        try:
            with lock(options.data_dir), listen(options.host, options.port) as listener:
                return self._serve(listener)
        except Interrupted:
            self._say("Interrupted while starting.")
            return INTERRUPTED

    def _serve(self, listener: socket.socket) -> int:
        try:
            self._start(listener)
            self._starting = False
            self._watch()
        except ChildFailed as error:
            self._say(str(error))
            return 1
        finally:
            self._starting = False
            self._stop(listener)
        return 0

    def _start(self, listener: socket.socket) -> None:
        options = self._options
        env = self._environment(listener.getsockname()[1])
        began = time.monotonic()
        self._engines = embedded.plan(options.data_dir, os.environ)
        self._say("Starting " + " and ".join(engine.name for engine in self._engines) + " ..." * bool(self._engines))
        simulator_url = self._start_simulator(env) if options.demo else None
        env |= embedded.start(options.data_dir, self._engines)
        for engine in self._engines:
            self._supervisor.watch(engine)
        self._say("Preparing the database ...")
        known = self._prepare(env, simulator_url)
        self._say("Starting the server and its workers ...")
        self._start_programs(env, listener)
        base_url = f"http://{_display_host(options.host)}:{env['POOLGATE_PORT']}"
        ready = Ready(
            base_url=base_url,
            panel_url=f"{base_url}/",
            metrics_url=f"{base_url}/metrics",
            metrics_token=env["POOLGATE_METRICS_TOKEN"],
            pid=os.getpid(),
            admin_user=ADMIN,
            admin_password=known.get("admin_password"),
            api_key=known.get("api_key"),
            simulator_url=simulator_url,
        )
        self._wait_until_ready(Path(env["POOLGATE_READY_DIR"]), ready)
        noted = {"base_url": base_url, "simulator_url": simulator_url}
        environment.write_json(
            options.data_dir / "run" / environment.UP_FILE, noted
        )  # for who asks in a second terminal
        if options.ready_file is not None:
            environment.write_json(options.ready_file, ready.as_json())
        self._say(card(ready, logs=f"{options.data_dir / 'logs'}", notes=self._notes(env, known)))
        self._say(f"(started in {time.monotonic() - began:.1f} s)")

    def _environment(self, port: int) -> dict[str, str]:
        """What every child inherits. Raises ``Refused`` for secrets that would not do."""
        options = self._options
        run = options.data_dir / "run"
        shutil.rmtree(run, ignore_errors=True)
        for name in ("ready", "metrics"):
            (run / name).mkdir(parents=True)
        return {
            **os.environ,
            **check_secrets(options.data_dir, options.host, os.environ),
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "POOLGATE_DATA_DIR": str(options.data_dir),
            "POOLGATE_PORT": str(port),
            "POOLGATE_READY_DIR": str(run / "ready"),
            "PROMETHEUS_MULTIPROC_DIR": str(run / "metrics"),
            "POOLGATE_ALLOWED_HOSTS": os.environ.get("POOLGATE_ALLOWED_HOSTS") or _allowed_hosts(options.host),
            "PYTHONUNBUFFERED": "1",
        }

    def _start_simulator(self, env: dict[str, str]) -> str:
        last = environment.read_json(self._options.data_dir / "demo.json").get("simulator_url", "")
        preferred = int(last.rpartition(":")[2]) if last else None
        port = embedded.free_port(preferred)
        hosts = [*environment.find_list("POOLGATE_UPSTREAM_HOSTS"), f"127.0.0.1:{port}"]
        env["POOLGATE_UPSTREAM_HOSTS"] = ",".join(hosts)
        # It plays the other side, which knows none of our secrets.
        theirs = {
            name: value for name, value in env.items() if name not in (*environment.SECRETS, *environment.ENGINES)
        }
        self._start_child("simulator", ["-m", "simulator", "--host", "127.0.0.1", "--port", str(port)], theirs)
        return f"http://127.0.0.1:{port}"

    def _prepare(self, env: Mapping[str, str], simulator_url: str | None) -> dict[str, Any]:
        """Migrates, and makes the owner and the demo; returns what the card may show of them."""
        command = [sys.executable, str(environment.ROOT / "manage.py"), "prepare"]
        if simulator_url:
            command += ["--simulator-url", simulator_url]
        done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)  # noqa: S603 - our own
        if done.returncode != 0:
            raise ChildFailed(f"The database could not be prepared:\n{done.stderr.strip()}")
        known: dict[str, Any] = json.loads(done.stdout)
        return known

    def _start_programs(self, env: Mapping[str, str], listener: socket.socket) -> None:
        descriptor = listener.fileno()
        for number in range(1, self._options.workers + 1):
            name = f"web-{number}"
            arguments = ["-m", "config.web", "--fd", str(descriptor), "--name", name, "--drain", str(DRAIN_SECONDS)]
            self._start_child(name, arguments, env, descriptor)
        celery = ["-m", "celery", "-A", "config.celery"]
        schedule = self._options.data_dir / "run" / "beat"
        self._start_child(
            "worker", [*celery, "worker", "--pool=threads", "--concurrency=4", "--loglevel=WARNING",
                       "--without-gossip", "--without-mingle", f"--hostname=worker@{env['POOLGATE_PORT']}"], env,
        )  # fmt: skip
        self._start_child("beat", [*celery, "beat", "--loglevel=WARNING", "--pidfile=", f"--schedule={schedule}"], env)

    def _start_child(self, name: str, arguments: list[str], env: Mapping[str, str], *descriptors: int) -> None:
        log = self._options.data_dir / "logs" / f"{name}.log"
        child = Child(name, [sys.executable, *arguments], env, log, descriptors)
        self._children.append(child)
        self._supervisor.start(child)

    def _wait_until_ready(self, directory: Path, ready: Ready) -> None:
        """Returns once every program said so and the port answers; with a demo key, once a model can be asked."""
        waiting = [child for child in self._children if child.name != "simulator"]
        deadline = time.monotonic() + START_SECONDS
        address = ready.base_url.removeprefix("http://")
        path, headers = (
            ("/v1/models", {"Authorization": f"Bearer {ready.api_key}"}) if ready.api_key else ("/livez", {})
        )
        while True:
            self._supervisor.check_started()
            waiting = [child for child in waiting if not (directory / child.name).exists()]
            if not waiting and _answers(address, path, headers):
                return
            if time.monotonic() > deadline:
                raise ChildFailed(failure(waiting[0]) if waiting else f"{ready.base_url}{path} does not answer.")
            time.sleep(0.05)

    def _watch(self) -> None:
        while not self._signals:
            self._supervisor.tick(time.monotonic())
            time.sleep(0.2)

    def _stop(self, listener: socket.socket) -> None:
        """Stops all there is, however far the start came. A second signal cuts the draining short."""
        if self._options.ready_file is not None:
            self._options.ready_file.unlink(missing_ok=True)
        (self._options.data_dir / "run" / environment.UP_FILE).unlink(missing_ok=True)
        listener.close()
        servers = [child for child in self._children if child.name.startswith("web-")]
        if servers:
            self._say(f"Stopping; streams have {DRAIN_SECONDS} s to finish (Ctrl-C again: at once) ...")
        for child in servers:
            if child.process is not None and child.process.poll() is None:
                child.process.terminate()
        deadline = time.monotonic() + DRAIN_SECONDS + 5
        while any(child.process is not None and child.process.poll() is None for child in servers):
            if self._signals > 1 or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for child in servers:
            child.stop(0.1)
        others = [child for child in self._children if child not in servers]
        for child in others:
            if child.process is not None and child.process.poll() is None:
                child.process.terminate()
        for child in others:
            child.stop(1.0 if self._signals > 1 else 10.0)
        if self._engines:
            embedded.stop(self._options.data_dir, self._engines)
        self._say("Stopped.")

    def _notes(self, env: Mapping[str, str], known: Mapping[str, Any]) -> tuple[str, ...]:
        notes = [f"{problem.what} {problem.fix}" for problem in environment.secret_problems(env)]
        if known.get("without_accounts"):
            notes.append("There is no account yet; after a key, add one: manage.py accounts add NAME --team TEAM")
        if known.get("left_over_demo"):
            notes.append("The demo's accounts and key are still in here; `manage.py demo --remove` deletes them.")
        if is_public(self._options.host) and not os.environ.get("POOLGATE_ALLOWED_HOSTS"):
            notes.append("Set POOLGATE_ALLOWED_HOSTS to the names under which browsers reach the panel.")
        return tuple(notes)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        if self._starting:
            self._starting = False
            raise Interrupted

    def _bury(self, pid: int) -> None:
        mark_process_dead(pid, str(self._options.data_dir / "run" / "metrics"))  # type: ignore[no-untyped-call]

    def _say(self, line: str) -> None:
        print(line, file=self._out, flush=True)


@contextmanager
def lock(directory: Path) -> Iterator[None]:
    """Holds the data dir for this process; the kernel lets go of it however the process ends."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "up.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Refused(
                f"Poolgate already runs on {directory} (process {file.read().strip() or 'unknown'}). "
                "Stop it first, or start a second one beside it: manage.py up --port PORT --data-dir DIR, "
                'or make run PORT=9000 ARGS="--data-dir var/second"'
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """The listening socket. Raises ``Refused`` with a way out when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror:
        raise Refused(f"There is no address called {host}. --host takes an address of this machine.") from None
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except PermissionError:
            raise Refused(f"Port {port} needs root. Choose one above 1023: --port 8080") from None
        except OSError as error:
            raise Refused(
                f"Port {port} on {host} cannot be used ({error.strerror}). "
                f"Choose another: manage.py up --port {port + 1}, or make run PORT={port + 1}"
            ) from None
        listener.listen(BACKLOG)
        yield listener


def check_secrets(directory: Path, host: str, given: Mapping[str, str]) -> dict[str, str]:
    """The secrets for the children, by variable. An installation with an engine of its own makes what is missing.

    Raises ``Refused`` for empty ones, and on a public address for weak or example ones.
    """
    if all(given.get(name) for name in environment.ENGINES):
        values = {name: environment.find(name) for name in environment.SECRETS}
    else:
        made = environment.make_secrets(directory)
        values = {name: made[name] for name in environment.SECRETS}
    problems = environment.secret_problems(values)
    empty = [name for name, value in values.items() if not value]
    if problems and (empty or is_public(host)):
        lines = [f"  {problem.what}\n    {problem.fix}" for problem in problems]
        where = "" if empty else f" on {host}, an address that others can reach"
        raise Refused("\n".join([f"Poolgate will not start{where} with these secrets:", *lines]))
    return values


def is_public(host: str) -> bool:
    """Whether others than this machine can reach ``host``."""
    with suppress(ValueError):
        return not ipaddress.ip_address(host).is_loopback
    return host != "localhost"


def _display_host(host: str) -> str:
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        return "127.0.0.1" if host != "::" else "[::1]"
    return f"[{host}]" if ":" in host else host


def _allowed_hosts(host: str) -> str:
    names = ["localhost", "127.0.0.1", "[::1]"]
    shown = _display_host(host)
    return ",".join(names if shown in names else [*names, shown])


def _answers(address: str, path: str, headers: Mapping[str, str]) -> bool:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", path, headers=dict(headers))
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
