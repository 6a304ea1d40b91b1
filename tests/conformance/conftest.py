"""The real SDKs and a plain HTTP caller, pointed at the whole product.

``calm`` is for tests that leave nothing behind: the house is made ready once a module. A test that orders faults or
turns knobs takes ``house``, which is made ready for each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anthropic
import openai
import pytest

from tests.conformance.caller import Caller
from tests.plugins.house import House


@pytest.fixture(scope="package")
def quick_calls(house_process: House) -> Iterator[None]:
    """Every turn with a call waits for a parallel one: a shorter while than in production."""
    house_process.manage("settings", "set", "tool_call_window", "0.2")
    yield
    house_process.manage("settings", "set", "tool_call_window", "0.5")


@pytest.fixture(scope="module")
def calm(house_process: House, quick_calls: None) -> House:
    house_process.reset()
    return house_process


@pytest.fixture(scope="session")
def caller(house_process: House) -> Iterator[Caller]:
    caller = Caller(house_process.url, house_process.key)
    with caller.http:
        yield caller


@pytest.fixture(scope="session")
def openai_sdk(house_process: House) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key=house_process.key, base_url=f"{house_process.url}/v1", max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="session")
def anthropic_sdk(house_process: House) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key=house_process.key, base_url=house_process.url, max_retries=0) as sdk:
        yield sdk


@pytest.fixture
async def async_openai(house_process: House) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key=house_process.key, base_url=f"{house_process.url}/v1", max_retries=0) as sdk:
        yield sdk


@pytest.fixture
async def async_anthropic(house_process: House) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(api_key=house_process.key, base_url=house_process.url, max_retries=0) as sdk:
        yield sdk
