"""Everything one simulator process knows: accounts, orders for trouble, open runs and the journal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from simulator.accounts import Account, Tokens, bearer, not_logged_in
from simulator.cloud import Agents
from simulator.faults import Faults
from simulator.journal import Entry, Journal
from simulator.logins import Logins
from simulator.plans import Plans
from simulator.runs import Runs


@dataclass(frozen=True)
class Options:
    """``token_life``: of a JWT, seconds. ``heartbeat``: of the server, seconds between two."""

    token_life: float = 3600.0
    heartbeat: float = 10.0


@dataclass
class World:
    """State shared by all faces of one process; one event loop, so nothing is locked."""

    accounts: dict[str, Account]
    defaults: Options = field(default_factory=Options)
    tokens: Tokens = field(default_factory=Tokens)
    faults: Faults = field(default_factory=Faults)
    journal: Journal = field(default_factory=Journal)
    runs: Runs = field(default_factory=Runs)
    agents: Agents = field(default_factory=Agents)
    logins: Logins = field(default_factory=Logins)
    plans: Plans = field(default_factory=Plans)

    def __post_init__(self) -> None:
        self.options = self.defaults

    def now(self) -> float:
        """Unix time, seconds."""
        return time.time()

    def reset(self) -> None:
        """Forgets log, counters, faults, chaos and changed settings. Open streams go on, tokens stay good."""
        self.faults = Faults()
        self.plans = Plans()
        self.journal.clear()
        self.runs.clear()
        self.agents.clear()
        self.options = self.defaults
        for account in self.accounts.values():
            account.forget()

    def change_options(self, body: Mapping[str, Any]) -> None:
        """Changes settings until the next reset. Raises ``ValueError`` for unknown names or bad values."""
        known = {"token_life", "heartbeat"}
        if not set(body) <= known:
            raise ValueError(f"settings are {', '.join(sorted(known))}")
        if not all(isinstance(value, (int, float)) and value > 0 for value in body.values()):
            raise ValueError("settings are positive numbers of seconds")
        self.options = replace(self.options, **{name: float(value) for name, value in body.items()})

    def account_of_key(self, headers: Mapping[str, str]) -> Account:
        """The account whose API key the bearer is. Raises the 401 ``Failure``."""
        key = bearer(headers)
        for account in self.accounts.values():
            if account.key == key:
                return account
        raise not_logged_in("unknown API key")

    def account_of_token(self, headers: Mapping[str, str]) -> Account:
        """The account whose JWT the bearer is; a raw API key is none. Raises the 401 ``Failure``."""
        name = self.tokens.check(bearer(headers), self.now())
        if name not in self.accounts:
            raise not_logged_in("unknown account")
        return self.accounts[name]

    def sign_in(self, account: str) -> dict[str, str]:
        """The tokens of a browser login, as the poll answers them."""
        return {
            "accessToken": self.tokens.mint(account, self.now(), self.options.token_life, "session"),
            "refreshToken": self.logins.issue(account),
            "authId": f"auth0|sim_{account}",
        }

    def open_entry(self, transport: str, account: Account | None, headers: Mapping[str, str]) -> Entry:
        """A journal entry for a contact, counted for its account."""
        if account is not None:
            account.contacts += 1
        return self.journal.open(self.now(), transport, account.name if account else "", headers)
