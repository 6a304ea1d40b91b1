"""What the fake upstream does not forgive. A client that passes here by luck would fail against the real one."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import uuid
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from protobufs import agent_v1_pb2 as pb
from tests import rpc
from tests.plugins.simulator import Simulator

QUICK = 0.5


@pytest.fixture
async def client(simulator: Simulator) -> AsyncIterator[rpc.Client]:
    simulator.settings(heartbeat=0.05)
    async with rpc.connect(simulator.url, simulator.keys["alpha"]) as client:
        yield client


def _ask(client: rpc.Client, model: str = "sim-echo", text: str = "hello there", **more: object) -> pb.AgentRunRequest:
    return rpc.request(model, text, client.blobs, **more)  # type: ignore[arg-type]


async def _post(client: rpc.Client, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    sent = {"authorization": f"Bearer {client.token}", **headers}
    async with client.http.post(client.url + path, data=body, headers=sent) as answer:
        return answer.status, await answer.read()


# A whole turn


async def test_a_good_client_gets_a_whole_turn(client: rpc.Client, simulator: Simulator) -> None:
    reply = await client.run(_ask(client, system="Be brief."))
    assert (reply.status, reply.text, reply.end) == (200, "hello there", {})
    assert reply.headers["content-type"] == rpc.STREAM
    kinds = [one.WhichOneof("message") for one in reply.messages]
    ended = next(i for i, one in enumerate(reply.messages) if one.interaction_update.HasField("turn_ended"))
    stored = [i for i, one in enumerate(reply.messages) if one.kv_server_message.HasField("set_blob_args")]
    assert kinds[:2] == ["kv_server_message", "exec_server_message"]
    assert stored
    assert max(stored) < ended
    assert kinds[-1] == "conversation_checkpoint_update"
    entry = simulator.log(1)[0]
    assert (entry["account"], entry["model"], entry["system"]) == ("alpha", "sim-echo", "Be brief.")
    assert (entry["text"], entry["ended"], entry["transport"]) == ("hello there", "complete", "run_sse")
    assert entry["seqnos"] == list(range(len(entry["seqnos"])))


async def test_the_checkpoint_names_blobs_that_the_client_now_has(client: rpc.Client) -> None:
    reply = await client.run(_ask(client))
    state = reply.messages[-1].conversation_checkpoint_update
    turn = pb.ConversationTurnStructure.FromString(client.blobs.data[state.turns[-1]]).agent_conversation_turn
    assert pb.UserMessage.FromString(client.blobs.data[turn.user_message]).text == "hello there"
    step = pb.ConversationStep.FromString(client.blobs.data[turn.steps[0]])
    assert step.assistant_message.text == "hello there"
    assert state.token_details.used_tokens == 4
    again = await client.run(_ask(client, "sim-history", "next", turns=list(state.turns)))
    assert again.text == "user 11\nassistant 11\nuser 4"


async def test_usage_counts_words(client: rpc.Client) -> None:
    usage = (await client.run(_ask(client, "sim-lorem-7", "one two three", system="be brief"))).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (5, 7)


# Who may come in


async def test_a_raw_key_as_bearer_is_refused(client: rpc.Client, simulator: Simulator) -> None:
    client.token = simulator.keys["alpha"]
    reply = await client.run(_ask(client))
    assert reply.status == 401
    assert json.loads(reply.body)["code"] == "unauthenticated"
    assert simulator.accounts()["alpha"]["runs"] == 0


async def test_an_expired_token_is_refused_with_its_number(client: rpc.Client, simulator: Simulator) -> None:
    simulator.settings(token_life=0.5)
    client.token = await rpc.exchange(client.http, client.url, simulator.keys["alpha"])
    await asyncio.sleep(0.6)
    reply = await client.run(_ask(client))
    assert reply.status == 401
    assert rpc.decode_details(json.loads(reply.body)).error == pb.ERROR_NOT_LOGGED_IN
    status, _ = await _post(client, rpc.MODELS, b"", **{"content-type": rpc.UNARY})
    assert status == 401


async def test_an_unknown_key_is_not_exchanged(client: rpc.Client) -> None:
    with pytest.raises(aiohttp.ClientResponseError) as refused:
        await rpc.exchange(client.http, client.url, "crsr_sim_nobody")
    assert refused.value.status == 401


async def test_a_run_belongs_to_the_account_that_began_it(client: rpc.Client, simulator: Simulator) -> None:
    request_id = str(uuid.uuid4())
    message = pb.AgentClientMessage(run_request=_ask(client))
    assert (await client.append(rpc.append_of(request_id, 0, message)))[0] == 200
    client.token = await rpc.exchange(client.http, client.url, simulator.keys["beta"])
    assert (await client.append(rpc.append_of(request_id, 1, message)))[0] == 403


# Framing and content types


async def test_wrong_content_types_are_415(client: rpc.Client) -> None:
    envelope = rpc.frame(pb.BidiRequestId(request_id="r").SerializeToString())
    one = {"connect-protocol-version": "1"}
    assert (await _post(client, rpc.RUN_SSE, envelope, **one, **{"content-type": rpc.UNARY}))[0] == 415
    assert (await _post(client, rpc.APPEND, b"", **{"content-type": rpc.STREAM}))[0] == 415
    assert (await _post(client, rpc.MODELS, b"", **{"content-type": rpc.STREAM}))[0] == 415


async def test_an_enveloped_unary_body_is_an_illegal_tag(client: rpc.Client) -> None:
    for path in (rpc.MODELS, rpc.APPEND):
        status, body = await _post(client, path, rpc.frame(b""), **{"content-type": rpc.UNARY})
        assert status == 400
        assert b"illegal tag" in body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        pb.BidiRequestId(request_id="r").SerializeToString(),
        rpc.frame(b"") + rpc.frame(b""),
        rpc.frame(b"\xff\xff"),
        rpc.frame(b""),
        rpc.frame(gzip.compress(pb.BidiRequestId(request_id="r").SerializeToString(), mtime=0), 1),
    ],
)
async def test_a_stream_request_that_is_not_one_envelope_is_refused(client: rpc.Client, body: bytes) -> None:
    headers = {"content-type": rpc.STREAM, "connect-protocol-version": "1"}
    assert (await _post(client, rpc.RUN_SSE, body, **headers))[0] == 400


async def test_the_protocol_version_is_required(client: rpc.Client) -> None:
    envelope = rpc.frame(pb.BidiRequestId(request_id="r").SerializeToString())
    assert (await _post(client, rpc.RUN_SSE, envelope, **{"content-type": rpc.STREAM}))[0] == 400


async def test_run_over_http_1_is_464(client: rpc.Client, simulator: Simulator) -> None:
    status, _ = await _post(client, "/agent.v1.AgentService/Run", b"", **{"content-type": rpc.STREAM})
    assert status == 464
    assert simulator.log(1)[0]["transport"] == "run"


async def test_the_catalogue_is_answered_without_an_envelope(client: rpc.Client) -> None:
    status, body = await _post(client, rpc.MODELS, b"", **{"content-type": rpc.UNARY})
    assert status == 200
    models = {model.model_id: model for model in pb.GetUsableModelsResponse.FromString(body).models}
    assert {"claude-sonnet-4.6", "default", "sim-echo"} <= set(models)
    assert models["gpt-5.2"].HasField("thinking_details")
    assert list(models["claude-sonnet-4.6"].aliases) == ["claude-4.6-sonnet", "sonnet-4.6"]


# Questions that must be answered


@pytest.mark.parametrize(
    ("model", "mute"),
    [
        ("sim-echo", "get"),
        ("sim-echo", "set"),
        ("sim-echo", "context"),
        ("sim-tool", "mcp"),
        ("sim-native-tool", "native"),
        ("sim-query", "query"),
        ("sim-unknown", "native"),
    ],
)
async def test_an_unanswered_question_stops_the_run_for_ever(client: rpc.Client, model: str, mute: str) -> None:
    client.mute.add(mute)
    reply = await client.run(_ask(client, model, system="s", tools=[rpc.WEATHER]), seconds=QUICK)
    assert reply.broken == "silence"
    assert reply.end is None
    assert reply.heartbeats >= 3
    assert reply.usage is None


async def test_an_answer_with_another_exec_id_is_none(client: rpc.Client) -> None:
    client.spoil_exec_id = True
    assert (await client.run(_ask(client), seconds=QUICK)).broken == "silence"


async def test_a_fake_success_of_a_native_tool_is_no_answer(client: rpc.Client) -> None:
    def pretend(order: pb.ExecServerMessage) -> list[pb.AgentClientMessage]:
        answer = pb.ExecClientMessage(id=order.id, exec_id=order.exec_id)
        answer.write_result.success.path = order.write_args.path
        return [pb.AgentClientMessage(exec_client_message=answer)]

    client.answer_native = pretend
    assert (await client.run(_ask(client, "sim-native-tool-write"), seconds=QUICK)).broken == "silence"


async def test_a_response_with_another_number_than_the_query_is_no_answer(client: rpc.Client) -> None:
    def confuse(query: pb.InteractionQuery) -> pb.InteractionResponse:
        response = pb.InteractionResponse(id=query.id)
        response.web_fetch_request_response.rejected.reason = "no"
        return response

    client.answer_query = confuse
    assert (await client.run(_ask(client, "sim-query"), seconds=QUICK)).broken == "silence"


async def test_without_a_request_context_there_are_heartbeats_only(client: rpc.Client) -> None:
    run = _ask(client)
    run.action.user_message_action.ClearField("request_context")
    reply = await client.run(run, seconds=QUICK)
    assert reply.broken == "silence"
    assert reply.heartbeats >= 3
    assert reply.text == ""


async def test_too_much_text_is_met_with_silence(client: rpc.Client, simulator: Simulator) -> None:
    reply = await client.run(_ask(client, text="x" * 2_600_000), seconds=2.0)
    assert (reply.broken, reply.text) == ("silence", "")
    assert simulator.log(1)[0]["answers"] == ["exec 1 request_context_result"]


async def test_a_resume_action_needs_no_user_text(client: rpc.Client) -> None:
    turns = [rpc.turn(client.blobs, "weather?", rpc.called("get_weather", {"city": "Oslo"}, "7C"))]
    run = _ask(client, "sim-tool", tools=[rpc.WEATHER], turns=turns)
    run.action.resume_action.request_context.SetInParent()
    assert (await client.run(run)).text == "Result: 7C"


# What is refused


Change = Callable[[pb.AgentRunRequest], object]


def _drop_mode(run: pb.AgentRunRequest) -> None:
    run.conversation_state.ClearField("mode")
    run.conversation_state.todos.append(b"x")


def _name_the_model_twice(run: pb.AgentRunRequest) -> None:
    run.requested_model.parameters.add(id="thinking", value="true")
    run.model_details.model_id = "sim-echo"


REFUSED: dict[str, Change] = {
    "no state": lambda run: run.ClearField("conversation_state"),
    "empty state": lambda run: run.conversation_state.Clear(),
    "no mode": _drop_mode,
    "unknown mode": lambda run: setattr(run.conversation_state, "mode", 9),
    "no action": lambda run: run.ClearField("action"),
    "no user message": lambda run: run.action.user_message_action.ClearField("user_message"),
    "short blob id": lambda run: run.conversation_state.turns.append(b"short"),
    "missing blob": lambda run: run.conversation_state.turns.append(hashlib.sha256(b"nowhere").digest()),
    "prefetched blob with another hash": lambda run: run.pre_fetched_blobs.add(id=b"x" * 32, value=b"y"),
    "too many root blobs": lambda run: run.conversation_state.root_prompt_messages_json.extend([b"x" * 32] * 193),
    "undeclared parameter": lambda run: run.requested_model.parameters.add(id="volume", value="11"),
    "undeclared value": lambda run: run.requested_model.parameters.add(id="effort", value="heroic"),
    "parameter twice": lambda run: run.requested_model.parameters.extend(
        [pb.RequestedModel.Parameter(id="thinking", value="true")] * 2
    ),
    "details beside parameters": _name_the_model_twice,
    "tool twice": lambda run: run.mcp_tools.mcp_tools.extend([rpc.WEATHER, rpc.WEATHER]),
    "tool without schema": lambda run: run.mcp_tools.mcp_tools.add(name="a", tool_name="a", provider_identifier="p"),
    "tool without name": lambda run: run.mcp_tools.mcp_tools.add(tool_name="a", provider_identifier="p"),
    "tool whose schema is no object's": lambda run: run.mcp_tools.mcp_tools.append(
        rpc.tool("a", {"type": "array", "items": {}})
    ),
    "tool whose JSON is broken": lambda run: run.mcp_tools.mcp_tools.add(
        name="a", tool_name="a", provider_identifier="p", input_schema_json="{"
    ),
    "image without data": lambda run: run.action.user_message_action.user_message.selected_context.selected_images.add(
        mime_type="image/png"
    ),
    "image with another hash": lambda run: (
        run.action.user_message_action.user_message.selected_context.selected_images.add(
            mime_type="image/png", blob_id_with_data=pb.BlobIdWithData(blob_id=b"x" * 32, data=b"y")
        )
    ),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
async def test_a_malformed_request_is_refused(client: rpc.Client, simulator: Simulator, change: Change) -> None:
    run = _ask(client)
    change(run)
    reply = await client.run(run)
    assert reply.status == 200
    assert reply.end["error"]["code"] == "invalid_argument"
    assert reply.error.error == pb.ERROR_BAD_REQUEST
    assert reply.text == ""
    assert simulator.log(1)[0]["ended"].startswith("refused:")


@pytest.mark.parametrize("model", ["auto", "gpt-9", "sim-nothing", ""])
async def test_a_model_that_does_not_exist_is_a_bad_model_name(client: rpc.Client, model: str) -> None:
    reply = await client.run(_ask(client, model))
    assert reply.end["error"]["code"] == "not_found"
    assert reply.error.error == pb.ERROR_BAD_MODEL_NAME


async def test_a_parameter_is_declared_per_model(client: rpc.Client, simulator: Simulator) -> None:
    refused = await client.run(_ask(client, "composer-2.5", parameters={"effort": "high"}))
    assert refused.end["error"]["code"] == "invalid_argument"
    taken = await client.run(_ask(client, "gpt-5.2", parameters={"effort": "high", "thinking": "true"}))
    assert taken.end == {}
    assert taken.thinking
    assert simulator.log(1)[0]["parameters"] == {"effort": "high", "thinking": "true"}


async def test_a_blob_that_does_not_hash_to_its_id_is_refused(client: rpc.Client) -> None:
    run = _ask(client, system="Be brief.")
    client.blobs.data[run.conversation_state.root_prompt_messages_json[0]] = b'{"role":"system","content":"Lie."}'
    assert (await client.run(run)).end["error"]["code"] == "invalid_argument"


async def test_a_blob_that_is_no_message_is_refused(client: rpc.Client) -> None:
    run = _ask(client)
    run.conversation_state.root_prompt_messages_json.append(client.blobs.put(b"not json"))
    reply = await client.run(run)
    assert "Failed to resolve request context blobs" in reply.error.details.detail


async def test_a_first_message_that_is_no_run_request_is_refused(client: rpc.Client) -> None:
    request_id = str(uuid.uuid4())
    heartbeat = pb.AgentClientMessage(client_heartbeat=pb.ClientHeartbeat())
    assert (await client.append(rpc.append_of(request_id, 0, heartbeat)))[0] == 200
    body = rpc.frame(pb.BidiRequestId(request_id=request_id).SerializeToString())
    _, answer = await _post(client, rpc.RUN_SSE, body, **{"content-type": rpc.STREAM, "connect-protocol-version": "1"})
    assert b"invalid_argument" in answer


async def test_an_mcp_error_ends_the_turn(client: rpc.Client) -> None:
    client.results["get_weather"] = pb.McpResult(error=pb.McpError(error="boom"))
    reply = await client.run(_ask(client, "sim-tool", tools=[rpc.WEATHER]))
    assert reply.end["error"]["code"] == "invalid_argument"


# Which tools a model can see


async def test_a_tool_is_called_only_when_it_is_listed_in_the_context_too(client: rpc.Client) -> None:
    client.context_tools = [rpc.tool("other")]
    reply = await client.run(_ask(client, "sim-tool", tools=[rpc.WEATHER]))
    assert (reply.calls, reply.text) == ([], "No tool was declared.")


async def test_a_tool_is_not_called_in_ask_mode(client: rpc.Client) -> None:
    run = _ask(client, "sim-tool", tools=[rpc.WEATHER])
    run.conversation_state.mode = pb.AGENT_MODE_ASK
    assert (await client.run(run)).calls == []


@pytest.mark.parametrize(("allowed", "calls"), [("", 0), ("shell_tool_call", 0), ("mcp_tool_call", 1)])
async def test_the_header_for_allowed_tools_is_obeyed(client: rpc.Client, allowed: str, calls: int) -> None:
    client.extra_headers["x-cursor-agent-allowed-tools"] = allowed
    assert len((await client.run(_ask(client, "sim-tool", tools=[rpc.WEATHER]))).calls) == calls


async def test_numbers_of_a_call_are_doubles(client: rpc.Client) -> None:
    reply = await client.run(_ask(client, "sim-tool", tools=[rpc.WEATHER]))
    days = reply.calls[0].args["days"]
    assert days.WhichOneof("kind") == "number_value"
    assert days.number_value == 1.0


# Appends


@pytest.mark.parametrize("append_first", [False, True])
@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("binary", [False, True])
async def test_either_side_may_come_first_with_either_base_and_form(
    client: rpc.Client, append_first: bool, base: int, binary: bool
) -> None:
    client.base, client.binary = base, binary
    reply = await client.run(_ask(client), append_first=append_first)
    assert (reply.text, reply.end) == ("hello there", {})


async def test_a_repeated_append_acts_once(client: rpc.Client, simulator: Simulator) -> None:
    plain = client.append

    async def repeat(message: pb.BidiAppendRequest, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        first = await plain(message, **headers)
        again = await plain(message, **headers)
        assert again[:2] == (200, b"")
        return first

    client.append = repeat  # type: ignore[method-assign]
    reply = await client.run(_ask(client))
    assert (reply.text, reply.end) == ("hello there", {})
    entry = simulator.log(1)[0]
    assert entry["duplicates"] > 0
    assert len(entry["answers"]) == len(set(entry["answers"]))


async def test_an_append_after_the_end_gets_its_empty_answer(client: rpc.Client) -> None:
    seen: list[str] = []
    plain = client.append

    async def watch(message: pb.BidiAppendRequest, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        seen.append(message.request_id.request_id)
        return await plain(message, **headers)

    client.append = watch  # type: ignore[method-assign]
    await client.run(_ask(client))
    heartbeat = pb.AgentClientMessage(client_heartbeat=pb.ClientHeartbeat())
    assert (await client.append(rpc.append_of(seen[0], 99, heartbeat)))[:2] == (200, b"")


@pytest.mark.parametrize(
    "append",
    [
        pb.BidiAppendRequest(data="zz"),
        pb.BidiAppendRequest(data="0"),
        pb.BidiAppendRequest(),
        pb.BidiAppendRequest(data="ffffffff"),
        pb.BidiAppendRequest(data="3a00"),
    ],
)
async def test_an_append_that_does_not_decode_is_refused(client: rpc.Client, append: pb.BidiAppendRequest) -> None:
    if append.data != "3a00":
        append.request_id.request_id = "r"
    assert (await client.append(append))[0] == 400


async def test_a_second_stream_for_one_request_id_is_refused(client: rpc.Client) -> None:
    body = rpc.frame(pb.BidiRequestId(request_id=str(uuid.uuid4())).SerializeToString())
    headers = {**client.headers, "content-type": rpc.STREAM}
    async with client.http.post(client.url + rpc.RUN_SSE, data=body, headers=headers) as first:
        assert first.status == 200
        async with client.http.post(client.url + rpc.RUN_SSE, data=body, headers=headers) as second:
            assert second.status == 409


async def test_a_cancel_action_ends_the_run_as_aborted(client: rpc.Client) -> None:
    request_id = str(uuid.uuid4())
    await client.append(rpc.append_of(request_id, 0, pb.AgentClientMessage(run_request=_ask(client, "sim-slow-200"))))
    cancel = pb.ConversationAction(cancel_action=pb.CancelAction())
    await client.append(rpc.append_of(request_id, 1, pb.AgentClientMessage(conversation_action=cancel)))
    body = rpc.frame(pb.BidiRequestId(request_id=request_id).SerializeToString())
    _, answer = await _post(client, rpc.RUN_SSE, body, **{"content-type": rpc.STREAM, "connect-protocol-version": "1"})
    assert b"ERROR_USER_ABORTED_REQUEST" in answer


# What is noted


async def test_a_client_that_goes_away_is_noticed_at_once(client: rpc.Client, simulator: Simulator) -> None:
    await client.run(_ask(client, "sim-hang"), seconds=0.3)
    await asyncio.sleep(0.2)
    entry = simulator.log(1)[0]
    assert entry["ended"] == "cancelled"
    assert entry["seconds"] < 1.0
    assert simulator.accounts()["alpha"]["active_streams"] == 0


async def test_the_log_holds_no_credential(client: rpc.Client, simulator: Simulator) -> None:
    client.extra_headers["x-request-id"] = "kept"
    await client.run(_ask(client))
    text = json.dumps(simulator.log())
    assert client.token not in text
    assert simulator.keys["alpha"] not in text
    assert '"x-request-id": "kept"' in text


async def test_images_and_history_are_noted_by_size(client: rpc.Client, simulator: Simulator) -> None:
    turns = [rpc.turn(client.blobs, "q" * 5, rpc.said("a" * 7), rpc.called("f", {"x": 1}, "result"))]
    run = _ask(client, turns=turns, text="now")
    run.action.user_message_action.user_message.selected_context.selected_images.add(
        mime_type="image/png", data=b"\x89PNG"
    )
    await client.run(run)
    entry = simulator.log(1)[0]
    assert entry["history"] == [["user", 5], ["assistant", 7], ["call", 7], ["tool", 6]]
    digest = hashlib.sha256(b"\x89PNG").hexdigest()
    assert entry["images"] == [{"mime_type": "image/png", "bytes": 4, "sha256": digest}]
