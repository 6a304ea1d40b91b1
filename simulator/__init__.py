"""A strict fake Cursor for tests, demo, drills and load: one process, own port, no part of the product.

The model name is the script (``sim-echo``, ``sim-lorem-200`` …) and a marker in the prompt can override it; see
``docs/simulator.md``. Scripts yield abstract steps (``steps``), each face renders them on its own wire, so the same
script runs behind every face. Where the real upstream is known to be strict, so is this one: it would rather stall
for ever than let a client get away with a mistake that the real one punishes.
"""
