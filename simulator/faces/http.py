"""How causes and refusals look at the HTTP level, for every face that has one."""

from __future__ import annotations

import json
import socket
import struct

from aiohttp import web

from simulator.causes import HTML, Cause, Form, error_object


def answer(request: web.Request, cause: Cause) -> web.Response:
    """The HTTP form of a cause. For one that closes the connection the response is never written."""
    headers = {"Retry-After": str(cause.retry_after)} if cause.retry_after is not None else {}
    match cause.form:
        case Form.HTML:
            return web.Response(status=cause.status, text=HTML, content_type="text/html")
        case Form.PLAIN:
            return web.Response(status=cause.status, text="upstream connect error", content_type="text/plain")
        case Form.EMPTY:
            return web.Response(status=cause.status)
        case Form.CLOSE:
            close(request)
            return web.Response(status=503)
    body = json.dumps(error_object(cause)).encode()
    return web.Response(status=cause.status, body=body, headers=headers, content_type="application/json")


def unsupported(expected: str) -> web.Response:
    """The 415 of a wrong content type."""
    return web.Response(status=415, headers={"Accept-Post": expected})


def close(request: web.Request) -> None:
    """Ends the connection where it is: no end of the body, no answer."""
    if request.transport is not None:
        request.transport.close()


def reset(request: web.Request) -> None:
    """Ends the connection with a TCP reset."""
    if request.transport is None:
        return
    connection: socket.socket | None = request.transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()
