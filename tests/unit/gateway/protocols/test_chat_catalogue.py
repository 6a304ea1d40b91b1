from __future__ import annotations

import orjson
from openai.types import Model

from accounts.compile import ModelView
from gateway.protocols.chat.server import encode_model, encode_models

OPUS = ModelView("opus", "claude-opus", owner="anthropic", context_tokens=1000, max_output_tokens=10, created=5)


def test_an_entry_has_the_two_sizes_that_clients_read() -> None:
    assert encode_model(OPUS) == (
        b'{"id":"opus","object":"model","created":5,"owned_by":"anthropic","context_window":1000,"max_tokens":10}'
    )


def test_the_list_holds_every_name_but_no_pattern() -> None:
    listing = orjson.loads(encode_models([OPUS, ModelView("gpt-*", "")]))
    assert listing["object"] == "list"
    assert [Model.model_validate(entry).id for entry in listing["data"]] == ["opus"]
