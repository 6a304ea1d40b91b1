from __future__ import annotations

import pytest

from simulator.markers import CallTool, Marker, RunScript, SayText, find


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no marker at all", []),
        ("please CALLTOOL get_weather {} END", [CallTool("get_weather", {})]),
        ('CALLTOOL f {"a": {"b": [1, " END "]}} END', [CallTool("f", {"a": {"b": [1, " END "]}})]),
        ('CALLTOOL f {\n  "a": 1\n}\nEND', [CallTool("f", {"a": 1})]),
        ("SAYTEXT hello there END", [SayText("hello there")]),
        ("SAYTEXT two\nlines END and more", [SayText("two\nlines")]),
        ("SCRIPT sim-lorem-3 END", [RunScript("sim-lorem-3")]),
        (
            'SAYTEXT a END CALLTOOL f {} END CALLTOOL g {"x": 1} END',
            [SayText("a"), CallTool("f", {}), CallTool("g", {"x": 1})],
        ),
        ("CALLTOOL f {broken} END", []),
        ("CALLTOOL f {}", []),
        ("CALLTOOL f [] END", []),
        ("CALLTOOL f", []),
        ("SAYTEXT without an end", []),
        ("SAYTEXT the WEEKEND is near END", [SayText("the WEEKEND is near")]),
        ("SCRIPT two words END", []),
        ("MYSCRIPT x END", []),
        ("CALLTOOL f {} SAYTEXT still found END", [SayText("still found")]),
    ],
)
def test_markers_are_found_in_order_and_broken_ones_are_not(text: str, expected: list[Marker]) -> None:
    assert find(text) == expected
