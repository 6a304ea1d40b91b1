"""Every script, marker and cause over the wire, and the control API."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from google.protobuf.message import DecodeError

from protobufs import agent_v1_pb2 as pb
from simulator.causes import CAUSES, HTML, Form
from simulator.steps import NATIVE_KINDS, QUERY_KINDS
from tests import rpc
from tests.plugins.simulator import ROOT, Simulator, start

PNG = b"\x89PNG\r\n\x1a\n picture"


@pytest.fixture
async def client(simulator: Simulator) -> AsyncIterator[rpc.Client]:
    async with rpc.connect(simulator.url, simulator.keys["alpha"]) as client:
        yield client


async def _run(
    client: rpc.Client, model: str, text: str = "hello", *, tools: bool = False, seconds: float = 5.0
) -> rpc.Reply:
    declared = [rpc.WEATHER] if tools else []
    return await client.run(rpc.request(model, text, client.blobs, tools=declared), seconds=seconds)


# Scripts


async def test_lorem_comes_one_word_a_delta(client: rpc.Client) -> None:
    reply = await _run(client, "sim-lorem-200")
    assert len(reply.deltas) == 200
    assert all(delta.endswith(" ") for delta in reply.deltas)
    assert reply.deltas == (await _run(client, "sim-lorem-200")).deltas


async def test_fifty_parallel_streams_arrive_whole(client: rpc.Client) -> None:
    replies = await asyncio.gather(
        *(client.run(rpc.request("sim-lorem-200", "x", rpc.Blobs()), seconds=30) for _ in range(50))
    )
    assert {len(reply.deltas) for reply in replies} == {200}
    assert all(reply.end == {} for reply in replies)


async def test_slow_waits_before_the_first_word_and_between_words(client: rpc.Client) -> None:
    times: list[float] = []
    client.on_delta = lambda _: times.append(time.monotonic())
    began = time.monotonic()
    reply = await _run(client, "sim-slow-20")
    assert len(reply.deltas) == 20
    assert times[0] - began >= 0.02
    assert times[-1] - times[0] >= 19 * 0.02


async def test_heartbeats_come_during_long_pauses(client: rpc.Client, simulator: Simulator) -> None:
    simulator.settings(heartbeat=0.05)
    reply = await _run(client, "sim-slow-400", seconds=1.0)
    assert reply.heartbeats >= 5
    assert 1 <= len(reply.deltas) <= 2


async def test_thinking_is_no_text(client: rpc.Client) -> None:
    reply = await _run(client, "sim-think-3")
    assert len(reply.thinking.split()) == 3
    assert len(reply.deltas) == 10
    assert reply.usage is not None
    assert reply.usage.reasoning_tokens == 3


async def test_a_tool_is_announced_ordered_and_answered_on_the_same_stream(client: rpc.Client) -> None:
    reply = await _run(client, "sim-tool", tools=True)
    kinds = [one.interaction_update.WhichOneof("message") or one.WhichOneof("message") for one in reply.messages]
    assert kinds.index("tool_call_started") < kinds.index("partial_tool_call") < kinds.index("tool_call_completed")
    call = reply.calls[0]
    assert (call.tool_name, call.provider_identifier, call.name) == ("get_weather", "gw", "gw-get_weather")
    assert set(call.args) == {"city", "days"}
    assert reply.text == "Result: 7C"


async def test_a_tool_result_in_the_history_is_answered_from(client: rpc.Client) -> None:
    turns = [rpc.turn(client.blobs, "weather?", rpc.called("get_weather", {"city": "Oslo"}, "7C"))]
    run = rpc.request("sim-tool", "Go on.", client.blobs, tools=[rpc.WEATHER], turns=turns)
    reply = await client.run(run)
    assert (reply.calls, reply.text) == ([], "Result: 7C")


async def test_a_tool_result_in_root_prompt_blobs_counts_as_history(client: rpc.Client) -> None:
    run = rpc.request("sim-tool", "Go on.", client.blobs, tools=[rpc.WEATHER])
    for role, content in (("user", "weather?"), ("assistant", [{"type": "text", "text": "Looking."}]), ("tool", "7C")):
        run.conversation_state.root_prompt_messages_json.append(client.blobs.put_json(role, content))
    assert (await client.run(run)).text == "Result: 7C"


async def test_a_new_question_after_an_answered_one_calls_again(client: rpc.Client) -> None:
    turns = [rpc.turn(client.blobs, "a?", rpc.called("get_weather", {"city": "Oslo"}, "7C"), rpc.said("7C it is."))]
    run = rpc.request("sim-tool", "And now?", client.blobs, tools=[rpc.WEATHER], turns=turns)
    assert len((await client.run(run)).calls) == 1


async def test_parallel_calls_have_ids_of_their_own(client: rpc.Client) -> None:
    reply = await _run(client, "sim-tools-4", tools=True)
    assert len({call.tool_call_id for call in reply.calls}) == 4
    assert reply.text == "\n".join(["Result: 7C"] * 4)


async def test_text_comes_before_the_call(client: rpc.Client) -> None:
    reply = await _run(client, "sim-text-tool", tools=True)
    assert reply.text == "Let me check.Result: 7C"
    assert len(reply.calls) == 1


async def test_split_arguments_come_a_character_at_a_time(client: rpc.Client) -> None:
    reply = await _run(client, "sim-tool-split", tools=True)
    pieces = [one.interaction_update.partial_tool_call.args_text_delta for one in reply.messages]
    assert all(len(piece) <= 1 for piece in pieces)
    assert json.loads("".join(pieces)) == {"city": "city", "days": 1}


async def test_a_call_id_may_hold_a_line_feed(client: rpc.Client) -> None:
    assert "\n" in (await _run(client, "sim-tool-linefeed", tools=True)).calls[0].tool_call_id


async def test_doubles_and_nested_nulls_arrive(client: rpc.Client) -> None:
    arguments = (await _run(client, "sim-tool-doubles", tools=True)).calls[0].args
    assert arguments["count"].number_value == 3.0
    assert arguments["nothing"].WhichOneof("kind") == "null_value"
    assert arguments["empty_list"].WhichOneof("kind") == "list_value"
    assert arguments["nested"].struct_value.fields["nothing"].WhichOneof("kind") == "null_value"


async def test_a_call_may_be_ordered_twice_with_one_id(client: rpc.Client) -> None:
    first, second = (await _run(client, "sim-tool-twice", tools=True)).calls
    assert first == second


async def test_a_probe_precedes_the_call_and_needs_approval(client: rpc.Client) -> None:
    probe, call = (await _run(client, "sim-tool-probe", tools=True)).calls
    assert probe.smart_mode_approval_only
    assert not call.HasField("smart_mode_approval_only")


def _with_images(client: rpc.Client, model: str) -> pb.AgentRunRequest:
    run = rpc.request(model, "look", client.blobs)
    images = run.action.user_message_action.user_message.selected_context.selected_images
    images.add(mime_type="image/png", data=PNG)
    images.add(mime_type="image/gif", blob_id=client.blobs.put(b"GIF89a"))
    digest = hashlib.sha256(b"webp").digest()
    images.add(mime_type="image/webp", blob_id_with_data=pb.BlobIdWithData(blob_id=digest, data=b"webp"))
    return run


async def test_images_are_described_in_all_three_forms(client: rpc.Client) -> None:
    lines = (await client.run(_with_images(client, "sim-image"))).text.split("\n")
    assert lines == [
        f"image/png {len(PNG)} {hashlib.sha256(PNG).hexdigest()}",
        f"image/gif 6 {hashlib.sha256(b'GIF89a').hexdigest()}",
        f"image/webp 4 {hashlib.sha256(b'webp').hexdigest()}",
    ]


async def test_images_are_written_to_the_workspace_and_read_back(client: rpc.Client) -> None:
    reply = await client.run(_with_images(client, "sim-image-assets"))
    assert len(reply.text.split("\n")) == 3
    assert sorted(client.files.values()) == sorted([PNG, b"GIF89a", b"webp"])


async def test_system_and_history_are_told_back(client: rpc.Client) -> None:
    turns = [
        rpc.turn(client.blobs, "first", rpc.said("answer"), rpc.called("f", {}, "ok")),
        rpc.turn(client.blobs, "second", rpc.said("more")),
    ]
    run = rpc.request("sim-history", "third!", client.blobs, turns=turns)
    assert (await client.run(run)).text == "user 5\nassistant 6\ncall 2\ntool 2\nuser 6\nassistant 4\nuser 6"
    run = rpc.request("sim-system", "x", client.blobs, system="Be brief.")
    assert (await client.run(run)).text == "Be brief."


async def test_blobs_that_were_sent_ahead_are_not_asked_for(client: rpc.Client) -> None:
    run = rpc.request("sim-system", "x", client.blobs, system="Be brief.")
    for identifier, value in client.blobs.data.items():
        run.pre_fetched_blobs.add(id=identifier, value=value)
    reply = await client.run(run)
    assert reply.text == "Be brief."
    assert not any(one.kv_server_message.HasField("get_blob_args") for one in reply.messages)


async def test_usage_has_its_forms(client: rpc.Client) -> None:
    none = (await _run(client, "sim-usage-none")).usage
    assert none is not None
    assert none.ByteSize() == 0
    cache = (await _run(client, "sim-usage-cache")).usage
    assert cache is not None
    assert (cache.input_tokens, cache.cache_read_tokens, cache.cache_write_tokens) == (120, 30, 10)
    nested = (await _run(client, "sim-usage-nested")).usage
    assert nested is not None
    assert not nested.HasField("input_tokens")
    assert nested.ByteSize() > 0


async def test_hang_says_nothing_and_heartbeats_nothing_else(client: rpc.Client, simulator: Simulator) -> None:
    simulator.settings(heartbeat=0.05)
    quiet = await _run(client, "sim-hang", seconds=0.4)
    assert (quiet.broken, quiet.heartbeats) == ("silence", 0)
    beating = await _run(client, "sim-heartbeats", seconds=0.4)
    assert (beating.broken, beating.text) == ("silence", "")
    assert beating.heartbeats >= 3


async def test_a_cut_is_an_end_of_the_body_without_an_end_frame(client: rpc.Client, simulator: Simulator) -> None:
    reply = await _run(client, "sim-cut-3")
    assert (len(reply.deltas), reply.end, reply.broken) == (3, None, "eof")
    assert simulator.log(1)[0]["ended"] == "cut"


async def test_a_reset_comes_after_its_deltas(client: rpc.Client, simulator: Simulator) -> None:
    reply = await _run(client, "sim-reset-3")
    assert (len(reply.deltas), reply.end) == (3, None)
    assert reply.broken in ("ClientPayloadError", "ClientOSError")
    assert simulator.log(1)[0]["ended"] == "reset"


async def test_garbage_does_not_decode(client: rpc.Client) -> None:
    with pytest.raises(DecodeError):
        await _run(client, "sim-garbage-3")


@pytest.mark.parametrize("kind", NATIVE_KINDS)
async def test_every_native_tool_can_be_thrown(client: rpc.Client, kind: str) -> None:
    reply = await _run(client, f"sim-native-tool-{kind}")
    assert reply.text == "The native tool was refused."


async def test_a_native_tool_can_be_rejected_in_its_shape(client: rpc.Client) -> None:
    def reject(order: pb.ExecServerMessage) -> list[pb.AgentClientMessage]:
        answer = pb.ExecClientMessage(id=order.id, exec_id=order.exec_id)
        close = pb.ExecClientControlMessage(stream_close=pb.ExecClientStreamClose(id=order.id))
        answer.shell_stream.rejected.reason = "not here"
        return [
            pb.AgentClientMessage(exec_client_message=answer),
            pb.AgentClientMessage(exec_client_control_message=close),
        ]

    client.answer_native = reject
    assert (await _run(client, "sim-native-tool-shell_stream")).text == "The native tool was refused."


async def test_several_native_tools_come_one_after_another(client: rpc.Client) -> None:
    reply = await _run(client, "sim-native-tools-3")
    assert sum(one.exec_server_message.HasField("shell_args") for one in reply.messages) == 3


@pytest.mark.parametrize("kind", QUERY_KINDS)
async def test_every_query_can_be_rejected_under_its_number(client: rpc.Client, kind: str) -> None:
    def reject(query: pb.InteractionQuery) -> pb.InteractionResponse:
        number = next(field.number for field, _ in query.ListFields() if field.number > 1)
        response = pb.InteractionResponse(id=query.id)
        field = response.DESCRIPTOR.fields_by_number[number]
        member = getattr(response, field.name)
        if isinstance(member, pb.ApprovalResponse):
            member.rejected.reason = "no"
        elif kind == "ask_question":
            member.result.rejected.reason = "no"
        else:
            member.result.error.error = "no"
        return response

    client.answer_query = reject
    assert (await _run(client, f"sim-query-{kind}")).text == "The question was rejected."


async def test_gzip_frames_are_mixed_in_only_when_the_client_takes_them(client: rpc.Client) -> None:
    plain = await _run(client, "sim-gzip")
    assert {flags & 1 for flags in plain.flags} == {0}
    client.gzip = True
    mixed = await _run(client, "sim-gzip")
    assert {flags & 1 for flags in mixed.flags} == {0, 1}
    assert mixed.headers["connect-content-encoding"] == "gzip"
    assert mixed.text == plain.text


async def test_unknown_fields_and_members_surround_the_text(client: rpc.Client) -> None:
    reply = await _run(client, "sim-unknown")
    assert len(reply.deltas) == 10
    assert sum(one.WhichOneof("message") is None for one in reply.messages) >= 1
    orders = [one.exec_server_message for one in reply.messages if one.HasField("exec_server_message")]
    assert any(order.WhichOneof("message") is None for order in orders)


async def test_late_json_comes_once_it_was_asked_for_again(client: rpc.Client) -> None:
    assert not (await _run(client, "sim-json-late")).text.startswith("{")


async def test_json_and_markup_arrive_as_text(client: rpc.Client) -> None:
    assert json.loads((await _run(client, "sim-json")).text)["answer"] == 42
    markup = await _run(client, "sim-markup")
    assert "<tool_call>" in markup.text
    assert markup.text.endswith("<|eos|>")
    assert not any("<|eos|>" in delta and delta != " text.<|eos|>" for delta in markup.deltas)


async def test_a_demo_model_completes_a_tool_loop(client: rpc.Client) -> None:
    reply = await _run(client, "claude-sonnet-4.6", "What is the weather in Oslo?", tools=True)
    assert reply.calls[0].args["city"].string_value == "Oslo"
    assert "7C" in reply.text


# Markers


async def test_markers_rule_under_any_model(client: rpc.Client) -> None:
    forced = await _run(client, "gpt-5.2", 'Now CALLTOOL get_weather {"city": "Oslo"} END', tools=True)
    assert forced.calls[0].args["city"].string_value == "Oslo"
    assert forced.calls[0].name == "gw-get_weather"
    assert forced.text == "Result: 7C"
    assert (await _run(client, "gpt-5.2", "SAYTEXT exactly this END")).text == "exactly this"
    assert len((await _run(client, "gpt-5.2", "SCRIPT sim-lorem-4 END")).deltas) == 4


async def test_an_undeclared_tool_can_be_forced(client: rpc.Client) -> None:
    assert (await _run(client, "sim-echo", "CALLTOOL nobody {} END")).calls[0].tool_name == "nobody"


# Causes


STREAMED = [name for name, cause in CAUSES.items() if cause.form is Form.STREAM]
AT_HTTP = [name for name, cause in CAUSES.items() if cause.form is not Form.STREAM]


@pytest.mark.parametrize("name", STREAMED)
async def test_a_streamed_cause_ends_the_stream(client: rpc.Client, simulator: Simulator, name: str) -> None:
    for model, deltas in ((f"sim-error-{name}", 0), (f"sim-error-{name}-after-2", 2)):
        reply = await _run(client, model)
        assert reply.status == 200
        assert len(reply.deltas) == deltas
        assert reply.end["error"]["code"] == CAUSES[name].code
        assert simulator.log(1)[0]["ended"] == f"error:{name}"


def _assert_http_form(name: str, status: int, body: bytes, headers: dict[str, str]) -> None:
    cause = CAUSES[name]
    assert status == cause.status
    if cause.form is Form.HTTP:
        assert json.loads(body)["code"] == cause.code
        assert headers["content-type"].startswith("application/json")
        assert headers.get("retry-after") == ("7" if cause.retry_after else None)
    if cause.form is Form.HTML:
        assert (body.decode(), headers["content-type"]) == (HTML, "text/html; charset=utf-8")
    if cause.form is Form.PLAIN:
        assert headers["content-type"].startswith("text/plain")
    if cause.form is Form.EMPTY:
        assert body == b""


@pytest.mark.parametrize("name", AT_HTTP)
async def test_an_http_cause_of_a_script_answers_the_append(
    client: rpc.Client, simulator: Simulator, name: str
) -> None:
    reply = await _run(client, f"sim-error-{name}", seconds=0.5)
    assert reply.deltas == []
    assert reply.end is None
    assert simulator.log(1)[0]["ended"] == f"error:{name}"
    if name == "goaway":
        assert reply.append_body == b"ServerDisconnectedError"
        assert reply.broken == "ClientPayloadError"
    else:
        _assert_http_form(name, reply.append_status, reply.append_body, reply.append_headers)
        assert reply.broken == "silence"


@pytest.mark.parametrize("name", AT_HTTP)
async def test_an_http_cause_of_an_account_meets_the_stream(
    client: rpc.Client, simulator: Simulator, name: str
) -> None:
    simulator.fault("alpha", name, times=1)
    reply = await _run(client, "sim-echo", seconds=2.0)
    if name == "goaway":
        assert reply.broken == "ServerDisconnectedError"
    else:
        _assert_http_form(name, reply.status, reply.body, reply.headers)
    assert (await _run(client, "sim-echo")).text == "hello"


@pytest.mark.parametrize("name", ["html_403", "token_expired"])
async def test_an_http_cause_meets_the_append_too_when_that_comes_first(
    client: rpc.Client, simulator: Simulator, name: str
) -> None:
    simulator.fault("alpha", name, times=1)
    run = rpc.request("sim-echo", "hello", client.blobs)
    reply = await client.run(run, append_first=True)
    assert reply.append_status == reply.status == CAUSES[name].status


async def test_a_stream_that_was_refused_on_the_way_may_be_tried_again_under_its_id(
    client: rpc.Client, simulator: Simulator
) -> None:
    simulator.fault("alpha", "goaway", times=1)
    body = rpc.frame(pb.BidiRequestId(request_id="again").SerializeToString())
    headers = {**client.headers, "content-type": rpc.STREAM}
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await client.http.post(client.url + rpc.RUN_SSE, data=body, headers=headers)
    async with client.http.post(client.url + rpc.RUN_SSE, data=body, headers=headers) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("name", AT_HTTP)
async def test_an_http_cause_after_output_looks_like_what_remains_of_it(client: rpc.Client, name: str) -> None:
    reply = await _run(client, f"sim-error-{name}-after-2")
    assert len(reply.deltas) == 2
    match CAUSES[name].form:
        case Form.HTTP:
            assert reply.end["error"]["code"] == CAUSES[name].code
            assert ("metadata" in reply.end) == (name == "rate_limited_hint")
        case Form.CLOSE:
            assert reply.broken == "ClientPayloadError"
        case _:
            assert reply.broken == "eof"
            assert reply.body.startswith(b"<!DOCTYPE")


# Faults, chaos and the rest of the control API


async def test_a_fault_hits_its_account_its_model_and_its_number_of_times(
    client: rpc.Client, simulator: Simulator
) -> None:
    simulator.fault("alpha", "model_limit", times=1, models=["sim-echo"])
    assert (await _run(client, "sim-lorem-1")).end == {}
    async with rpc.connect(simulator.url, simulator.keys["beta"]) as other:
        assert (await _run(other, "sim-echo")).end == {}
    assert (await _run(client, "sim-echo")).error.error == pb.ERROR_RATE_LIMITED_CHANGEABLE
    assert (await _run(client, "sim-echo")).end == {}


async def test_a_fault_waits_for_its_deltas(client: rpc.Client, simulator: Simulator) -> None:
    simulator.fault("alpha", "unavailable", after=3)
    reply = await _run(client, "sim-lorem-10")
    assert len(reply.deltas) == 3
    assert reply.end["error"]["code"] == "unavailable"


async def test_latency_comes_before_the_first_word(client: rpc.Client, simulator: Simulator) -> None:
    simulator.fault("alpha", None, latency_ms=300)
    began = time.monotonic()
    assert (await _run(client, "sim-echo")).text == "hello"
    assert time.monotonic() - began >= 0.3


async def test_a_bad_key_is_not_exchanged(client: rpc.Client, simulator: Simulator) -> None:
    simulator.fault("beta", "key_bad")
    with pytest.raises(aiohttp.ClientResponseError) as refused:
        await rpc.exchange(client.http, client.url, simulator.keys["beta"])
    assert refused.value.status == 401


async def test_chaos_fails_the_same_runs_again(client: rpc.Client, simulator: Simulator) -> None:
    async def ends() -> list[str]:
        simulator.reset()
        simulator.chaos(7, 0.5, ["internal", "html_403"])
        for _ in range(12):
            await _run(client, "sim-echo", seconds=0.3)
        return [str(entry["ended"]) for entry in simulator.runs()]

    first = await ends()
    assert first == await ends()
    assert {"complete", "error:internal", "error:html_403"} == set(first)


async def test_accounts_count_what_reached_them(client: rpc.Client, simulator: Simulator) -> None:
    await _run(client, "sim-echo")
    simulator.fault("gamma", "internal", times=2)
    accounts = simulator.accounts()
    assert (accounts["alpha"]["runs"], accounts["alpha"]["contacted"]) == (1, 2)
    assert accounts["alpha"]["exchanges"] == 1
    assert accounts["beta"]["contacted"] == 0
    assert (accounts["gamma"]["fault"], accounts["gamma"]["times"]) == ("internal", 2)


async def test_the_log_is_newest_first_and_takes_a_limit(client: rpc.Client, simulator: Simulator) -> None:
    for model in ("sim-lorem-1", "sim-lorem-2", "sim-lorem-3"):
        await _run(client, model)
    assert [entry["model"] for entry in simulator.log(2)] == ["sim-lorem-3", "sim-lorem-2"]
    assert simulator.log()[-1]["transport"] == "exchange"
    simulator.reset()
    assert simulator.log() == []


def test_bad_orders_are_refused_with_a_reason(simulator: Simulator) -> None:
    with pytest.raises(ValueError, match="unknown cause"):
        simulator.fault("alpha", "nothing")
    with pytest.raises(ValueError, match="no account"):
        simulator.fault("nobody", "internal")
    with pytest.raises(ValueError, match="rate"):
        simulator.chaos(1, 2.0, ["internal"])
    with pytest.raises(ValueError, match="settings"):
        simulator.settings(volume=11)


# The process


def test_it_refuses_to_listen_beyond_loopback() -> None:
    command = [sys.executable, "-m", "simulator", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert b"--allow-public" in done.stderr


def test_it_says_when_its_port_is_taken(simulator: Simulator) -> None:
    port = simulator.url.rpartition(":")[2]
    command = [sys.executable, "-m", "simulator", "--port", port]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=30, check=False)
    assert done.returncode == 1
    assert b"simulator:" in done.stderr


async def test_a_seeded_account_serves_only_its_models(tmp_path: Path) -> None:
    seed = tmp_path / "seed.json"
    seed.write_text(json.dumps({"accounts": [{"name": "solo", "models": ["sim-lorem-10"]}]}))
    process, url = start(tmp_path, "--seed", str(seed))
    try:
        async with rpc.connect(url, "crsr_sim_solo") as client:
            assert (await _run(client, "sim-lorem-10")).end == {}
            assert (await _run(client, "sim-echo")).end["error"]["code"] == "permission_denied"
            headers = {"content-type": rpc.UNARY, "authorization": f"Bearer {client.token}"}
            async with client.http.post(url + rpc.MODELS, headers=headers) as answer:
                models = pb.GetUsableModelsResponse.FromString(await answer.read()).models
            assert [model.model_id for model in models] == ["sim-lorem-10"]
    finally:
        process.terminate()
        assert process.wait(timeout=10) == 0


async def test_it_stops_at_once_with_streams_open(tmp_path: Path) -> None:
    process, url = start(tmp_path)
    async with rpc.connect(url, "crsr_sim_alpha") as client:
        running = asyncio.ensure_future(_run(client, "sim-hang", seconds=10))
        await asyncio.sleep(0.3)
        began = time.monotonic()
        process.terminate()
        assert await asyncio.to_thread(process.wait, 10) == 0
        assert time.monotonic() - began < 3
        assert (await running).end is None


async def test_a_compressed_request_envelope_is_taken_when_announced(client: rpc.Client) -> None:
    body = rpc.frame(gzip.compress(pb.BidiRequestId(request_id="compressed").SerializeToString()), 1)
    headers = {**client.headers, "content-type": rpc.STREAM, "connect-content-encoding": "gzip"}
    async with client.http.post(client.url + rpc.RUN_SSE, data=body, headers=headers) as answer:
        assert answer.status == 200
