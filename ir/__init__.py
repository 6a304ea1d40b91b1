"""The vocabulary every room speaks: requests, events, usage, errors and the order events may come in.

Pure: no Django, no asyncio, no clock, no random. A change here is a breaking change for every protocol.
"""
