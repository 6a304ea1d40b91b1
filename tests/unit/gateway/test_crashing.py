"""A bug of ours costs one request: the caller gets a 500, the record says so, and no log repeats what the bug saw."""

from __future__ import annotations

import io
import logging
import logging.config
from collections.abc import Iterator

import pytest
from django.conf import settings

from core.redis_pipe import Pipe
from gateway.ledger import Ledger
from ops.record import decode
from ops.recorder import RECORDS
from tests.unit.gateway.call import Call

CANARY = "the caller's own words"


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What the product's own formatter writes."""
    formatters: dict[str, dict[str, str]] = settings.LOGGING["formatters"]  # type: ignore[assignment]
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.config.DictConfigurator({}).configure_formatter(formatters["line"]))
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_crash_is_a_500_without_a_word_of_the_request_anywhere(
    pipe: Pipe, logged: io.StringIO, stream: bool
) -> None:
    ledger = Ledger(pipe, "one", draws=lambda: 0.0)
    await ledger.start()
    call = Call(ledger, stream=stream, bug=ValueError(CANARY))
    await call.run()
    await ledger.stop()
    assert call.sent[0]["status"] == 500
    [[_, fields]] = await pipe.call("XRANGE", RECORDS, "-", "+")
    assert (decode(fields[1]).outcome, decode(fields[1]).code) == ("internal_error", "internal_error")
    assert "ValueError" in logged.getvalue()
    assert "in open" in logged.getvalue()
    assert CANARY not in logged.getvalue() + str(call.sent) + str(fields)
