"""The wires on which the simulator can be spoken to, one module each, and the control API."""
