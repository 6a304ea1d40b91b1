"""The text of a model → text, thinking and calls, as it streams.

    stream      := ( text | thinking | callblock )*
    thinking    := "<thinking>" chars-until "</thinking>"          only where thinking is on
    callblock   := TRIGGER ws{0,64} invoke ( ws* [TRIGGER ws{0,64}] invoke )*
    invoke      := "<invoke" ( ws+ attr )* ws* ">" ws* body ws* "</invoke>"
    attr        := NAME ws* "=" ws* ( '"' [^"<]* '"' | "'" [^'<]* "'" )   entities decoded; only `name` is used
    body        := empty | json-object | param+
    param       := ws* "<parameter" ws+ name-attr ws* ">" chars-until "</parameter>"

The trigger is drawn anew for each attempt, so nothing that was written before can start a call. Strategy: what is
surely text or thinking goes out at once; only a possible beginning of a token is held back (at most 16 characters).
From a trigger on everything is held until it is a call, or surely none; then it is text again, and nothing is lost.
The result does not depend on how the input is cut, and the work grows with its length alone: every step moves forward,
and only a call that the end of the stream breaks off is looked through once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from gateway.textbridge.call import INVOKE, INVOKE_END, PARAMETER, PARAMETER_END, Call, Names, Parameter
from gateway.textbridge.sink import Note, Sink
from gateway.textbridge.tape import Tape

MOST_SPACE = 64  # characters between a trigger and its invoke
LONGEST_TAG = 1024
LONGEST_BODY = 1024 * 1024
MOST_CALLS = 64

TRIGGER = re.compile(r"<<CALL_[0-9A-Za-z]{8}>>")

_THINKING, _THINKING_END = "<thinking>", "</thinking>"
_OPENING = re.compile(rf"{TRIGGER.pattern}|{_THINKING}")
_TAG_PARTS = {"": re.compile(r"""[^"'<>]*"""), '"': re.compile(r'[^"<]*'), "'": re.compile(r"[^'<]*")}
_OUTSIDE_STRING = re.compile(r'[^"{}\[\]<\\]*')
_INSIDE_STRING = re.compile(r'[^"\\]*')
_CLOSERS = {"{": "}", "[": "]"}


class State(Enum):
    """Where in the grammar the next character stands."""

    TEXT = "text"
    THINKING = "thinking"
    CALL = "call"  # after a trigger, before its invoke
    TAG = "tag"  # inside the opening tag of an invoke
    BODY = "body"  # before an object, a parameter or the end
    OBJECT = "object"
    PARAMETER = "parameter"  # inside the opening tag of a parameter
    VALUE = "value"
    CLOSE = "close"  # after the object
    AFTER = "after"  # after a call, where another may follow
    RESYNC = "resync"  # a call broke; up to its end everything is text


_IN_BODY = frozenset({State.BODY, State.OBJECT, State.PARAMETER, State.VALUE, State.CLOSE})
_NOT_HELD = frozenset({State.TEXT, State.THINKING, State.RESYNC})


class Parser:
    """For one answer. ``trigger`` "" reads no calls; ``tools`` are the declared names.

    Raises ``ValueError`` for a trigger that is not of the form ``<<CALL_xxxxxxxx>>``.
    """

    def __init__(self, sink: Sink, trigger: str, tools: Iterable[str], *, thinking: bool) -> None:
        if trigger and not TRIGGER.fullmatch(trigger):
            raise ValueError("a trigger is <<CALL_, eight letters or digits, >>")
        self._sink = sink
        self._trigger = trigger
        self._openings = ((trigger,) if trigger else ()) + ((_THINKING,) if thinking else ())
        self._names = Names(tools)
        self._tape = Tape()
        self._state = State.TEXT
        self._call = Call()
        self._calls = 0
        self._closing = False
        self._endless_values = False  # at the close: no end of a value is left

    def feed(self, text: str) -> None:
        tape = self._tape
        if self._state is State.TEXT and not tape.text and "<" not in text:
            if text:
                self._sink.text(text)
            return
        tape.append(text)
        self._run()
        tape.cut(holding=self._state not in _NOT_HELD)

    def close(self) -> None:
        """The end of the stream: nothing stays held."""
        self._tape.join()
        self._closing = True
        while self._break_off():
            self._run()

    def _run(self) -> None:
        tape, size = self._tape, len(self._tape.text)
        while True:
            tape.end = size
            if self._state in _IN_BODY:
                tape.end = min(size, tape.index(self._call.body + LONGEST_BODY))
            if not _STEPS[self._state](self):
                if tape.end == size:
                    return
                self._resync(Note.CALL_TOO_LARGE)

    # A step moves on as far as it understands and tells whether the state changed. False means that more input is
    # needed, and that what is left is at most the beginning of a token.

    def _in_text(self) -> bool:
        tape = self._tape
        found = self._find_opening()
        self._tell(self._sink.text, tape.undecided(*self._openings) if found is None else found.start())
        if found is None:
            return False
        tape.pos = found.end()
        if found.group() == _THINKING:
            self._sink.thinking_opened()
            self._state = State.THINKING
        else:
            tape.hold(found.start())
            self._expect_invoke()
        return True

    def _find_opening(self) -> re.Match[str] | None:
        start = self._tape.pos
        while self._openings and (found := _OPENING.search(self._tape.text, start)) is not None:
            if found.group() in self._openings:
                return found
            start = found.end()
        return None

    def _in_thinking(self) -> bool:
        tape = self._tape
        end = tape.text.find(_THINKING_END, tape.pos)
        self._tell(self._sink.thinking, tape.undecided(_THINKING_END) if end < 0 else end)
        if end < 0:
            return False
        tape.pos += len(_THINKING_END)
        self._sink.thinking_closed()
        self._state = State.TEXT
        return True

    def _in_call(self) -> bool:
        tape, call = self._tape, self._call
        before = tape.pos
        tape.skip_space()
        call.spaces += tape.pos - before
        sees = tape.starts_tag(INVOKE) if call.spaces <= MOST_SPACE else False
        if sees:
            self._open_invoke()
        elif sees is False:
            self._release(Note.TRIGGER_WITHOUT_INVOKE)
        return sees is not None

    def _in_tag(self) -> bool:
        passed = self._pass_tag(self._call.tag)
        if passed:
            self._call.body = self._tape.offset
            self._state = State.BODY
        elif passed is False:
            self._release(Note.BROKEN_TAG)
        return passed is not None

    def _in_body(self) -> bool:
        tape, call = self._tape, self._call
        sign = tape.skip_space()
        if sign == "{" and not call.parameters:
            call.object = tape.offset
            self._state = State.OBJECT
            return True
        sees = tape.starts_tag(PARAMETER)
        if sees:
            call.parameters.append(Parameter(tape.offset))
            call.quote = ""
            tape.pos += len(PARAMETER)
            self._state = State.PARAMETER
        return self._accept_end() if sees is False else sees is not None

    def _in_object(self) -> bool:
        tape, call = self._tape, self._call
        while tape.pos < tape.end:
            if call.escaped:
                call.escaped = False
                tape.pos += 1
                continue
            sign = tape.skip(_INSIDE_STRING if call.in_string else _OUTSIDE_STRING)
            if not sign:
                break
            if sign == '"':
                call.in_string = not call.in_string
            elif call.in_string:
                call.escaped = True
            elif sign in _CLOSERS:
                call.open.append(_CLOSERS[sign])
            elif call.open.pop() != sign:
                self._resync(Note.INVALID_ARGUMENTS)
                return True
            tape.pos += 1
            if not call.open:
                call.object_end = tape.offset
                self._state = State.CLOSE
                return True
        return False

    def _in_parameter(self) -> bool:
        parameter = self._call.parameters[-1]
        passed = self._pass_tag(parameter.tag)
        if passed:
            parameter.value = self._tape.offset
            self._state = State.VALUE
        elif passed is False:
            self._resync(Note.INVALID_ARGUMENTS)
        return passed is not None

    def _in_value(self) -> bool:
        tape = self._tape
        end = -1 if self._endless_values else tape.text.find(PARAMETER_END, tape.pos, tape.end)
        if end < 0:
            self._endless_values = self._closing and tape.end == len(tape.text)
            tape.pos = tape.undecided(PARAMETER_END)
            return False
        tape.pos = end
        self._call.parameters[-1].end = tape.offset
        tape.pos += len(PARAMETER_END)
        self._state = State.BODY
        return True

    def _in_close(self) -> bool:
        self._tape.skip_space()
        return self._accept_end()

    def _after_call(self) -> bool:
        tape = self._tape
        tape.skip_space()
        if tape.offset > LONGEST_BODY:
            self._release()
            return True
        if tape.starts(self._trigger):
            tape.pos += len(self._trigger)
            self._expect_invoke()
            return True
        sees = tape.starts_tag(INVOKE)
        if sees:
            self._open_invoke()
        elif sees is False and not tape.may_become(self._trigger):
            self._release()
            return True
        return bool(sees)

    def _in_resync(self) -> bool:
        tape = self._tape
        end = tape.text.find(INVOKE_END, tape.pos)
        self._tell(self._sink.text, tape.undecided(INVOKE_END) if end < 0 else end + len(INVOKE_END))
        if end < 0:
            return False
        self._state = State.TEXT
        return True

    # Parts of steps

    def _tell(self, voice: Callable[[str], None], end: int) -> None:
        if end > self._tape.pos:
            voice(self._tape.take(end))

    def _expect_invoke(self) -> None:
        self._call = Call()
        self._state = State.CALL

    def _open_invoke(self) -> None:
        self._call = Call(tag=self._tape.offset)
        self._tape.pos += len(INVOKE)
        self._state = State.TAG

    def _pass_tag(self, start: int) -> bool | None:
        """Past the ``>`` of an opening tag. False: it is broken or too long; ``None``: it goes on."""
        tape, call = self._tape, self._call
        while True:
            sign = tape.skip(_TAG_PARTS[call.quote])
            if sign == "<" or tape.offset - start > LONGEST_TAG:
                return False
            if not sign:
                return None
            tape.pos += 1
            if sign == ">":  # never inside quotes: there it is passed over
                return True
            call.quote = "" if call.quote else sign

    def _accept_end(self) -> bool:
        """At what must be the end of the call."""
        tape = self._tape
        if tape.starts(INVOKE_END):
            tape.pos += len(INVOKE_END)
            self._accept()
        elif tape.may_become(INVOKE_END):
            return False
        else:
            self._resync(Note.INVALID_ARGUMENTS)
        return True

    def _accept(self) -> None:
        call, raw = self._call, self._tape.held()
        name = self._names.find(call.read_name(raw))
        read = call.read_arguments(raw)
        if name is None:
            self._release(Note.UNKNOWN_TOOL)
        elif read is None:
            self._release(Note.INVALID_ARGUMENTS)
        elif self._calls == MOST_CALLS:
            self._release(Note.CALL_TOO_LARGE)
        else:
            self._calls += 1
            self._sink.call(name, read.text, raw)
            if read.repeated:
                self._sink.note(Note.DUPLICATE_KEY)
            self._tape.hold(self._tape.pos)
            self._state = State.AFTER

    def _resync(self, note: Note) -> None:
        self._release(note)
        self._state = State.RESYNC

    def _release(self, note: Note | None = None) -> None:
        """What was held is text after all."""
        held = self._tape.held()
        self._tape.hold(self._tape.pos)
        if held:
            self._sink.text(held)
        if note is not None:
            self._sink.note(note)
        self._state = State.TEXT

    def _break_off(self) -> bool:
        """The stream ended in this state. True: a call broke off, and behind its end there is more to read."""
        tape, size = self._tape, len(self._tape.text)
        if self._state in _IN_BODY:
            end = tape.text.find(INVOKE_END, tape.index(self._call.body))
            if end >= 0:
                tape.pos = end + len(INVOKE_END)
                self._release(Note.TRUNCATED_CALL)
                return True
        if self._state is State.THINKING:
            self._tell(self._sink.thinking, size)
            self._sink.note(Note.UNCLOSED_THINKING)
        elif self._state in _NOT_HELD:
            self._tell(self._sink.text, size)
        else:
            tape.pos = size
            self._release(_BROKEN_OFF.get(self._state, Note.TRUNCATED_CALL))
        tape.cut(holding=False)
        return False


_BROKEN_OFF: Mapping[State, Note | None] = {State.CALL: Note.TRIGGER_WITHOUT_INVOKE, State.AFTER: None}

_STEPS: Mapping[State, Callable[[Parser], bool]] = {
    State.TEXT: Parser._in_text,
    State.THINKING: Parser._in_thinking,
    State.CALL: Parser._in_call,
    State.TAG: Parser._in_tag,
    State.BODY: Parser._in_body,
    State.OBJECT: Parser._in_object,
    State.PARAMETER: Parser._in_parameter,
    State.VALUE: Parser._in_value,
    State.CLOSE: Parser._in_close,
    State.AFTER: Parser._after_call,
    State.RESYNC: Parser._in_resync,
}
