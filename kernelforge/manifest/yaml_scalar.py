"""What an unquoted YAML scalar means: the core schema of YAML 1.2 (section 10.3.2), minus what invites mistakes.

YAML 1.1 readers (PyYAML among them) disagree with 1.2 about ``no``, ``010``, ``1:30``, ``1_000`` and dates. Numbers
with a leading zero are refused everywhere. The others are text, as in 1.2; where any type would be accepted, a reader
asks ``other_meaning`` and refuses them too, because the text ``"no"`` is true in Python.
"""

from __future__ import annotations

import math
import re

Scalar = bool | int | float | str | None

_CONSTANTS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN")

_YAML_1_1 = (
    (re.compile(r"(?i:yes|no|on|off)"), "a boolean"),
    (re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9_]*)?"), "a number to base 60"),
    (re.compile(r"[-+]?(0x|0b|\.)?[0-9][0-9a-fA-F_]*_[0-9a-fA-F_.]*|[-+]?0b[01_]+|[-+]0[xo][0-9a-fA-F_]+"), "a number"),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"), "a date"),
)


class Refused(Exception):
    """A scalar that is not accepted; ``what`` and ``hint`` become a problem with the scalar's line."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar; raises ``Refused``."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _LEADING_ZERO.fullmatch(text):
        hint = f"write {text.lstrip('+-0') or '0'}, or 0o... for an octal number, or quote it for text"
        raise Refused(f"{text} is octal to some readers and decimal to others", hint)
    if _INT.fullmatch(text) or _OTHER_BASE.fullmatch(text):
        return _int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isfinite(value):
            return value
        raise Refused(f"{text} is too large for a number", "write a finite number")
    if _NOT_FINITE.fullmatch(text):
        raise Refused(f"{text} is no finite number", "leave the argument out, or quote it for text")
    return text


def other_meaning(text: str) -> str:
    """What YAML 1.1 takes an unquoted ``text`` for where YAML 1.2 takes it for text; empty where they agree."""
    return next((meaning for pattern, meaning in _YAML_1_1 if pattern.fullmatch(text)), "")


def _int(text: str) -> int:
    # 20 characters hold every 64-bit number; longer ones would meet Python's own limit of 4,300 digits.
    value = int(text, 0) if len(text) <= 20 else 1 << 64
    if not -(1 << 63) <= value < 1 << 63:
        raise Refused(f"{text[:24]} does not fit into 64 bits", "write a smaller number")
    return value
