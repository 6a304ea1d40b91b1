"""One turn of the agent, from the run request to its end, as the upstream plays it.

The order is that of the real one: blobs are asked for, the request context is asked for, the script runs, the new
conversation blobs are stored, and only when every store is acknowledged the turn ends. Whatever stays unanswered
stops the turn for good; only heartbeats go on.
"""

from __future__ import annotations

import asyncio
import uuid

from protobufs import agent_v1_pb2 as pb
from simulator import checks, messages, natives, reading, scripts, words
from simulator.accounts import Account
from simulator.causes import CAUSES, Form, refusal, scripted
from simulator.line import Line
from simulator.memory import Memory
from simulator.runs import Answer, Run
from simulator.steps import (
    Announce,
    Ask,
    Break,
    Call,
    Calls,
    Fail,
    Native,
    Pause,
    Picture,
    Prompt,
    Script,
    Spend,
    Stall,
    Step,
    StoreImages,
    Text,
    Thinking,
    Tool,
    Wear,
)

# Beyond this much text the real upstream goes silent instead of answering.
SILENT_CHARACTERS = 2_500_000


class Turn:
    """Plays one run of an account over a line."""

    def __init__(self, account: Account, run: Run, line: Line) -> None:
        self._account = account
        self._run = run
        self._line = line
        self._memory = Memory()
        self._prompt = Prompt("", "")
        self._spend = Spend.PLAIN
        self._unknown = False
        self._words = self._thought = 0
        self._window = 0

    async def play(self) -> Break | None:
        """Returns None when the turn ended as it should, or the break that the script asks for.

        Raises ``Failure`` for whatever ends the stream with an error.
        """
        request = await self._line.wait(self._run.request)
        if self._run.failure is not None:
            await self._line.stall()
        verdict = self._run.verdict
        await self._line.sleep(verdict.latency)
        if verdict.cause and not verdict.after:
            raise scripted(verdict.cause)
        self._prompt = await self._read(request)
        self._memory.hear(self._prompt.text)
        await self._line.send(messages.step_started(1))
        ending = await self._perform(scripts.play(self._prompt), verdict.after if verdict.cause else None)
        if ending is None and verdict.cause:
            raise scripted(verdict.cause)
        if ending is None:
            await self._finish(request)
        return ending

    async def _read(self, request: pb.AgentRunRequest) -> Prompt:
        """Checks the request as strictly as the upstream and reads the prompt; the journal learns what it holds."""
        checks.check_state(request)
        checks.check_action(request)
        model, parameters = checks.check_model(request, self._account.models)
        tools = checks.read_tools(request.mcp_tools.mcp_tools)
        entry, self._window = self._run.entry, model.window
        entry.model, entry.parameters = model.id, parameters
        entry.tools = [{"name": one.name, "tool_name": one.tool_name, "schema": one.schema} for one in tools]
        if not checks.has_context(request):
            await self._line.stall()
        self._line.know(request.pre_fetched_blobs)
        dialogue = await reading.read(request, self._line.fetch)
        self._note(dialogue)
        listed = await self._context_tools()
        if dialogue.size > SILENT_CHARACTERS:
            await self._line.stall()
        usable = checks.callable_tools(tools, listed, request.conversation_state.mode, entry.headers)
        return Prompt(
            model=model.id,
            text=dialogue.text,
            system=dialogue.system,
            history=dialogue.history,
            pictures=dialogue.pictures,
            tools=usable,
            results=dialogue.results,
            asked=dialogue.asked,
            parameters=parameters,
        )

    def _note(self, dialogue: reading.Dialogue) -> None:
        entry = self._run.entry
        entry.system = dialogue.system
        entry.history = [(one.role, len(one.text)) for one in dialogue.history]
        pictures = [*(one for said in dialogue.history for one in said.pictures), *dialogue.pictures]
        entry.images = [describe(one) for one in pictures]

    async def _context_tools(self) -> tuple[Tool, ...]:
        """Asks for the request context; a tool that is not listed there is one the model does not know."""
        answer = await self._line.execute(pb.ExecServerMessage(request_context_args=pb.RequestContextArgs()))
        if not isinstance(answer, pb.ExecClientMessage) or not answer.request_context_result.HasField("success"):
            await self._line.stall()
        return checks.read_tools(answer.request_context_result.success.request_context.tools)

    async def _perform(self, script: Script, limit: int | None) -> Break | None:
        """Runs the script to its end or its break, or until ``limit`` deltas are out."""
        step = next(script, None)
        while step is not None:
            answers: tuple[str, ...] = ()
            if isinstance(step, Text | Thinking):
                await self._say(step)
                if limit is not None and self._run.entry.deltas >= limit:
                    return None
            elif isinstance(step, Break):
                return step
            else:
                answers = await self._act(step)
            try:
                step = script.send(answers)
            except StopIteration:
                return None
        return None

    async def _say(self, step: Text | Thinking) -> None:
        self._run.check_cancelled()
        self._run.entry.deltas += 1
        if isinstance(step, Text):
            if self._thought and not self._words:
                await self._line.send(messages.thinking_completed(1))
            payload = messages.text_delta(step.text)
            self._words += 1
            self._memory.say(step.text)
        else:
            payload = messages.thinking_delta(step.text)
            self._thought += 1
        await self._line.send(messages.with_unknown(payload) if self._unknown else payload)

    async def _act(self, step: Step) -> tuple[str, ...]:
        """Every step that is neither a delta nor a break. Returns what the client answered."""
        match step:
            case Pause(seconds):
                await self._line.sleep(seconds)
            case Stall(heartbeats):
                await self._line.stall(heartbeats=heartbeats)
            case Fail(cause):
                await self._fail(cause)
            case Calls():
                return await self._call(step)
            case Ask(kind):
                return (await self._ask(kind),)
            case Native(kind):
                if not await natives.refused(kind, self._line):
                    await self._line.stall()
            case StoreImages():
                if not await natives.stored(self._prompt.pictures, self._line):
                    await self._line.stall()
            case Wear():
                await self._wear(step)
            case Spend():
                self._spend = step
        return ()

    async def _fail(self, cause: str) -> None:
        if self._run.entry.deltas or CAUSES[cause].form is Form.STREAM:
            raise scripted(cause)
        # The append that carried the request was answered with it already; the stream just never says anything.
        await self._line.stall()

    async def _wear(self, step: Wear) -> None:
        if step.gzip:
            self._line.mix_gzip()
        if step.unknown:
            self._unknown = True
            await self._line.send(messages.UNKNOWN_MEMBER)
            await self._line.send(messages.UNKNOWN_UPDATE)

    async def _call(self, step: Calls) -> tuple[str, ...]:
        """Announces the calls, orders them, and waits for every result."""
        await self._line.store(self._memory.take_blobs())
        await self._line.acknowledged()
        if step.probe:
            await self._probe(step.calls[0])
        ordered: list[tuple[pb.ExecServerMessage, asyncio.Future[Answer]]] = []
        for call in step.calls:
            call_id = f"call_{uuid.uuid4().hex[:24]}{call.tail}"
            arguments = messages.mcp_args(call, call_id, self._tool(call))
            await self._announce(call, call_id, arguments, step.announce)
            message = pb.ExecServerMessage(mcp_args=arguments)
            if step.twice:
                await self._line.order(message)
            ordered.append((message, await self._line.order(message)))
        if not step.wait:
            return ()
        return tuple([await self._result(message, future) for message, future in ordered])

    async def _probe(self, call: Call) -> None:
        """The permission probe that precedes a call: only ``approved`` lets the turn go on."""
        arguments = messages.mcp_args(call, "call_probe", self._tool(call), probe=True)
        answer = await self._line.execute(pb.ExecServerMessage(mcp_args=arguments))
        if not isinstance(answer, pb.ExecClientMessage) or not answer.mcp_result.HasField("approved"):
            await self._line.stall()

    async def _announce(self, call: Call, call_id: str, arguments: pb.McpArgs, how: Announce) -> None:
        await self._line.send(messages.call_started(call_id, arguments))
        text = messages.arguments_text(call.arguments)
        pieces = list(text) if how is Announce.CHARACTERS else [text[: len(text) // 2], text]
        for piece in pieces:
            await self._line.send(messages.partial_call(call_id, arguments, piece))

    async def _result(self, message: pb.ExecServerMessage, future: asyncio.Future[Answer]) -> str:
        answer = await self._line.take(message, future)
        if isinstance(answer, pb.ExecClientThrow):
            return answer.error
        if not isinstance(answer, pb.ExecClientMessage) or not answer.HasField("mcp_result"):
            await self._line.stall()
        arguments, result = message.mcp_args, answer.mcp_result
        if result.HasField("error"):
            raise refusal("a tool result that is an error ends the turn; failed tools answer success with is_error")
        self._run.entry.images += [describe(one) for one in reading.result(result, arguments.tool_name).pictures]
        self._memory.call(arguments, result)
        await self._line.send(messages.call_completed(arguments.tool_call_id, arguments, result))
        return reading.result(result, arguments.tool_name).text

    async def _ask(self, kind: str) -> str:
        member, answer = await self._line.ask(kind)
        response = getattr(answer, member)
        approved = isinstance(response, pb.ApprovalResponse) and response.HasField("approved")
        return "approved" if approved else "rejected"

    def _tool(self, call: Call) -> Tool | None:
        return next((tool for tool in self._prompt.tools if tool.name == call.name), None)

    async def _finish(self, request: pb.AgentRunRequest) -> None:
        """Stores what is new, shows the checkpoint around the end of the turn, and ends it."""
        blobs, turn = self._memory.close()
        await self._line.store(blobs)
        await self._line.acknowledged()
        read = words.count(self._prompt.system) + words.count(self._prompt.text)
        read += sum(words.count(one.text) for one in self._prompt.history)
        state = pb.ConversationStateStructure()
        state.CopyFrom(request.conversation_state)
        state.turns.append(turn)
        state.token_details.used_tokens = read + self._words + self._thought
        state.token_details.max_tokens = self._window
        await self._line.send(messages.token_delta(self._words))
        await self._line.send(messages.step_completed(1))
        await self._line.send(messages.checkpoint(state))
        await self._line.send(messages.turn_ended(self._spend, read, self._words + self._thought, self._thought))
        await self._line.send(messages.checkpoint(state))


def describe(picture: Picture) -> dict[str, str | int]:
    """A picture as the journal has it."""
    return {
        "mime_type": picture.media_type,
        "bytes": len(picture.data),
        "sha256": messages.blob_id(picture.data).hex(),
    }
