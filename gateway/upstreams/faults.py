"""What the errors of sockets, TLS, proxies and the HTTP parser mean, as faults."""

from __future__ import annotations

import errno
import ssl

import httptools

from gateway.upstreams.tunnel import ProxyError, ResolveError
from ir.errors import Fault, Reason, Stage

_NO_WAY = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})
_NOTHING_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class CalledOff(BaseException):
    """No error: a read was told to wait no longer, and what it read from is open as before."""


def as_fault(error: BaseException, stage: Stage, *, proxied: bool = False) -> Fault:
    """What a client error means. Total: whatever is not known is INTERNAL, so it can never blame an account."""
    if isinstance(error, Fault):
        return error
    code = type(error).__name__
    if isinstance(error, httptools.HttpParserError):
        return Fault(Reason.PROTOCOL, stage, upstream_code=code)
    if isinstance(error, ProxyError | ResolveError | ssl.SSLCertVerificationError):
        return Fault(Reason.EGRESS, stage, upstream_code=code)
    if isinstance(error, TimeoutError):
        reason = Reason.EGRESS if proxied and stage is Stage.CONNECT else Reason.TIMEOUT
        return Fault(reason, stage, upstream_code=code)
    if isinstance(error, OSError) and error.errno not in _NOTHING_LEFT:
        if error.errno in _NO_WAY or (proxied and stage is Stage.CONNECT):
            return Fault(Reason.EGRESS, stage, upstream_code=code)
        reason = Reason.CUT if stage in (Stage.PREAMBLE, Stage.CONTENT, Stage.END) else Reason.TRANSIENT
        return Fault(reason, stage, upstream_code=code)
    return Fault(Reason.INTERNAL, stage, upstream_code=code)


def restage(fault: Fault, stage: Stage) -> Fault:
    """The same fault, at the stage that the turn had reached."""
    return Fault(fault.reason, stage, retry_after=fault.retry_after, upstream_code=fault.upstream_code, hint=fault.hint)
