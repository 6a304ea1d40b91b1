"""What the upstream wants remembered of a turn: content-addressed blobs that the client stores for it."""

from __future__ import annotations

from protobufs import agent_v1_pb2 as pb
from simulator.messages import blob_id


class Memory:
    """Collects one turn. Blobs are handed out once, in the order in which they came to be."""

    def __init__(self) -> None:
        self._user = b""
        self._steps: list[bytes] = []
        self._text: list[str] = []
        self._new: list[bytes] = []

    def hear(self, text: str) -> None:
        """The user text that began the turn."""
        self._user = self._remember(pb.UserMessage(text=text).SerializeToString())

    def say(self, text: str) -> None:
        """A piece of the answer."""
        self._text.append(text)

    def call(self, arguments: pb.McpArgs, result: pb.McpResult) -> None:
        """A finished tool call."""
        call = pb.ToolCall(mcp_tool_call=pb.McpToolCall(args=arguments, result=result))
        self._step(pb.ConversationStep(tool_call=call))

    def take_blobs(self) -> list[bytes]:
        """The blobs that are new since the last time."""
        if self._text:
            said = pb.AssistantMessage(text="".join(self._text))
            self._text.clear()
            self._step(pb.ConversationStep(assistant_message=said))
        blobs, self._new = self._new, []
        return blobs

    def close(self) -> tuple[list[bytes], bytes]:
        """The last blobs, and the id of the one that holds the turn together."""
        blobs = self.take_blobs()
        inner = pb.AgentConversationTurnStructure(user_message=self._user, steps=self._steps)
        turn = pb.ConversationTurnStructure(agent_conversation_turn=inner).SerializeToString()
        return [*blobs, turn], blob_id(turn)

    def _step(self, step: pb.ConversationStep) -> None:
        self._steps.append(self._remember(step.SerializeToString()))

    def _remember(self, data: bytes) -> bytes:
        self._new.append(data)
        return blob_id(data)
