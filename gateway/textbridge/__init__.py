"""Tools and thinking over an upstream that only speaks text. Pure.

The model is told in the prompt how to write a call (``prompt``); what it writes is read as it streams (``parser``) and
becomes events in the order of ``ir.grammar`` (``assembler``). What the caller asked for decides which calls count
(``plan``), and what is asked once more when none came (``tries``).
"""
