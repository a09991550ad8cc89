"""Filters a program's output to a terminal, so that it can draw and do little else.

Escape sequences do more than drawing: they make terminals write to the clipboard, print, transfer files, change what
keys send, and type answers to queries. Drawing passes, and a short list of other sequences. Modes that the program has
switched on, such as the mouse or the alternate screen, are switched off after its end, however it ends.
"""

import codecs
import re
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from gloveport.late_pattern import late_pattern

Verdict: TypeAlias = Literal["pass", "drop", "more"]

# Text: everything but ESC, ENQ (the terminal would type its answerback), and the eight-bit forms of escapes.
_TEXT: Final = late_pattern(r"[^\x1b\x05\x80-\x9f]+")
_CONTROL: Final = late_pattern(r"\x1b\[([0-?]*)([ -/]*)([@-~])")
_ESCAPE: Final = late_pattern(r"\x1b([ -/]*)([0-~])")
_UNFINISHED: Final = late_pattern(r"\x1b(?:\[[0-?]*[ -/]*|[ -/]*)\Z")
_STRING: Final = late_pattern(r"\x1b([\]PX^_k])")
_STRING_TEXT: Final = late_pattern(r"[^\x00-\x1f\x80-\x9f]+")
_NUMBERS: Final = late_pattern(r"[0-9;:]*")
_LONGEST: Final = 256
_LONGEST_HEAD: Final = 512
_LONGEST_STRING: Final = 8192

_END: Final = "\x1b\\"
_PUSH_TITLE, _POP_TITLE = "\x1b[22;0t", "\x1b[23;0t"

# Designations of character sets, alignment, keypad, cursor, tabs, reset. Not ESC % and ESC blank: they change how the
# terminal decodes bytes, and a letter for us could be an escape for it.
_ESCAPES: Final = late_pattern(r"[()*+./-][0-~]|#[3-8]|[78DEHMNOZc=>no|}~\\]")
# Cursor, erasing, colours, scrolling, rectangles, keys, questions. Not the status line, columns, nor modes as saved; no
# printing (i) nor self-test (y); nor "]" and "[", by which the Linux console shows another console, blanks all of them,
# and swallows what comes next.
_FINALS: Final = {"": "@ABCDEFGHIJKLMPSTXZ^`abcdefghjklmnrstux", "?": "JKSWchlmnu", ">": "cmnqu", "=": "cu", "<": "u"}
_BETWEEN: Final = {" ": "@Aq", "!": "p", "#": "PQRpq{}", "$": "prtvxz{", "'": "}~", "*": "x"}
_WINDOW: Final = frozenset({14, 16, 18, 19})
"""Allowed operations of CSI t besides saving and restoring the title: report the size; not to move, nor to type the
title."""
_SAVE_TITLE, _RESTORE_TITLE = 22, 23
_MOST_TITLES: Final = 8
"""Most titles that are saved: terminals drop the oldest of more than ten, and that is the one from before."""

_TITLES: Final = frozenset({"0", "1", "2"})
_COLOURS: Final = frozenset(map(str, (4, 5, *range(10, 20), 104, 105, *range(110, 120))))
_MARKS: Final = frozenset({"8", "133", "633"})  # links, and marks of prompts and commands
_CLIPBOARD: Final = "52"
_COLOUR: Final = late_pattern(r"[^0-9;?]")
"""What sets a colour, and does not ask for one, has other characters."""
_UNDO_COMMANDS: Final = {
    "4": "\x1b]104\x1b\\",
    "5": "\x1b]105\x1b\\",
    **{str(number): f"\x1b]{number + 100}\x1b\\" for number in range(10, 20)},
    "8": "\x1b]8;;\x1b\\",
    "9": "\x1b]9;4;0\x1b\\",
}
"""Command strings that restore what one changes, by its number: colours, a link, progress."""
_DEVICE: Final = late_pattern(r"\+q|[0-9;]*q|=[12]s")  # terminfo queries, sixel pictures, synchronized updates
_DEVICE_HEAD: Final = late_pattern(r"[0-9;]*|\+|=[12]?")
_GRAPHICS_FROM_FILES: Final = late_pattern(r"(?:^G|,)t=[^d]")

_USUAL: Final = {
    **{("?", number): True for number in (7, 8, 25)},
    **{("?", number): False for number in (1, 5, 6, 9, 45, 47, 66, 69, *range(1000, 1008), 1015, 1016, 1047, 1049)},
    **{("?", number): False for number in (2004, 2026, 2031, 2048)},
    ("", 2): False,
    ("", 4): False,
    ("", 12): True,
    ("", 20): False,
}
"""Modes (``?`` or nothing, number), and whether each is on in a terminal's initial state."""
_HARMLESS: Final = frozenset({("?", number) for number in (12, 80, 1048, 1070, 2027, 8452)})
"""Further modes that may be switched: how the cursor blinks, how pictures are drawn. All others are left out, since
nobody would know how to switch them back."""
_MOST_KEY_SETTINGS: Final = 10
"""How many settings of what keys send with modifiers there may be: terminals have eight."""
_FULL_SCREEN: Final = (47, 1047, 1049)
_UNDO: Final = {
    ("", "", "g"): "\x1b[?5W",  # tab stops
    ("", "", "m"): "\x1b[m",  # colours
    ("", "", "r"): "\x1b7\x1b[r\x1b8",  # scrolling region
    ("", " ", "q"): "\x1b[0 q",  # cursor shape
}
"""Sequences that restore what a control sequence changes, by its private mark, intermediate and final characters."""


class OutputFilter(Struct, kw_only=True):
    """Filters one program's output to one terminal.

    Attributes:
        may_copy: Whether the program may write to the clipboard. It may never read it.
    """

    may_copy: bool = False
    _unfinished_text: str = ""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )
    _string: str = ""
    """The letter that began the current control string; empty outside of one."""
    _head: str = ""
    _verdict: Verdict = "more"
    _string_characters: int = 0
    _modes: dict[tuple[str, int], bool] = field(default_factory=dict)
    """The modes that were switched: (``?`` or nothing, number) → whether the mode is on."""
    _has_title: bool = False
    _titles: int = 0
    """How many titles the program has saved."""
    _key_levels: dict[bool, int] = field(default_factory=dict)
    """How often the keyboard's mode was saved, on the full screen and on the other: each has a stack of its own."""
    _has_keys: set[bool] = field(default_factory=set)
    """The screens on which the keyboard's mode was set."""
    _others: dict[str, None] = field(default_factory=dict)
    """Sequences that restore other changed state, in order."""

    @property
    def is_full_screen(self) -> bool:
        """Whether the program uses the alternate screen."""
        return any(self._modes.get(("?", number), False) for number in _FULL_SCREEN)

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return what may be written to the terminal now."""
        text, self._unfinished_text = self._unfinished_text + self._decoder.decode(data), ""
        out: list[str] = []
        at = 0
        while at < len(text):
            at = self._take_string(text, at, out) if self._string else self._take(text, at, out)
        return "".join(out).encode()

    def interrupt(self) -> bytes:
        """Return what ends a control string of the program's, which would swallow our text; its rest is dropped."""
        if not self._string or self._verdict != "pass":
            return b""
        self._verdict = "drop"
        return _END.encode()

    def finish(self) -> bytes:
        """Return the sequences that restore the terminal after the program's end."""
        out = [_END] if self._string and self._verdict == "pass" else []
        keys = self._undo_keys(full_screen=True)
        out.append(keys if self.is_full_screen or not keys else f"\x1b[?1049h{keys}\x1b[?1049l")
        for (private, number), on in self._modes.items():
            if on != _USUAL[private, number]:
                out.append(f"\x1b[{private}{number}{'l' if on else 'h'}")
        out.append(self._undo_keys(full_screen=False))
        out += [*self._others]
        out.append(_POP_TITLE * (self._titles + self._has_title))
        return "".join(out).encode()

    def _undo_keys(self, *, full_screen: bool) -> str:
        levels = self._key_levels.get(full_screen, 0)
        return (f"\x1b[<{levels}u" if levels else "") + ("\x1b[=0u" if full_screen in self._has_keys else "")

    def _take(self, text: str, at: int, out: list[str]) -> int:
        """Process one piece outside of control strings; return where the next begins."""
        if plain := _TEXT.match(text, at):
            out.append(plain.group())
            if "\x0e" in plain.group():
                self._others["\x0f"] = None
            return plain.end()
        if text[at] == "\x1b":
            return self._take_escape(text, at, out)
        return at + 1  # drop an eight-bit escape, or ENQ

    def _take_escape(self, text: str, at: int, out: list[str]) -> int:
        if string_start := _STRING.match(text, at):
            self._string, self._head, self._verdict, self._string_characters = string_start.group(1), "", "more", 0
            return string_start.end()
        if control := _CONTROL.match(text, at, at + _LONGEST):
            self._control(control, out)
            return control.end()
        if _UNFINISHED.match(text, at) and len(text) - at < _LONGEST:
            self._unfinished_text = text[at:]
            return len(text)
        if (escape := _ESCAPE.match(text, at)) and escape.group(2) != "[":
            if _ESCAPES.fullmatch(escape.group()[1:]):
                out.append(escape.group())
                self._note_escape(escape.group()[1:])
            return escape.end()
        return at + 1  # no known sequence: drop the ESC, and show the rest as text

    def _control(self, found: "re.Match[str]", out: list[str]) -> None:
        parameters, between, final = found.groups()
        private = parameters[:1] if parameters[:1] in {"<", "=", ">", "?"} else ""
        if not _NUMBERS.fullmatch(parameters, len(private)):
            return
        numbers = [int(number) if number.isdecimal() else 0 for number in parameters[len(private) :].split(";")]
        is_known = final in _FINALS[private] or (between and not private)
        if not is_known or (between and final not in _BETWEEN.get(between, "")):
            if (private, between, final) != ("?", "$", "p"):  # asks for a mode
                return
        elif not between and final in {"h", "l"}:
            self._switch_modes(private, numbers, final, out)
            return
        elif not between and final == "t" and not self._may_operate(numbers[0]):
            return
        self._note_control(private, between, final, numbers)
        out.append(found.group())

    def _switch_modes(self, private: str, numbers: list[int], final: str, out: list[str]) -> None:
        """Switch those of the modes that are known."""
        known_modes = [one for one in numbers if (private, one) in _USUAL or (private, one) in _HARMLESS]
        self._modes |= {(private, one): final == "h" for one in known_modes if (private, one) in _USUAL}
        if known_modes:
            out.append(f"\x1b[{private}{';'.join(map(str, known_modes))}{final}")

    def _may_operate(self, number: int) -> bool:
        """Whether an operation on the window may pass; titles are restored only if the program has saved them."""
        if number == _SAVE_TITLE:
            may, self._titles = self._titles < _MOST_TITLES, min(_MOST_TITLES, self._titles + 1)
            return may
        if number == _RESTORE_TITLE:
            may, self._titles = self._titles > 0, max(0, self._titles - 1)
            return may
        return number in _WINDOW

    def _note_control(self, private: str, between: str, final: str, numbers: list[int]) -> None:
        """Note how to restore what a control sequence changes."""
        screen = self.is_full_screen
        if (private, final) == (">", "u"):
            self._key_levels[screen] = self._key_levels.get(screen, 0) + 1
        elif (private, final) == ("<", "u"):
            self._key_levels[screen] = max(0, self._key_levels.get(screen, 0) - max(1, numbers[0]))
        elif (private, final) == ("=", "u"):
            self._has_keys.add(screen)
        elif private == ">" and final in {"m", "n"} and numbers[0] < _MOST_KEY_SETTINGS:
            self._others[f"\x1b[>{numbers[0]}m"] = None
        elif undo := _UNDO.get((private, between, final)):
            self._others[undo] = None

    def _note_escape(self, sequence: str) -> None:
        if sequence[0] == "(" and sequence != "(B":
            self._others["\x1b(B"] = None
        elif sequence in {"n", "o"}:
            self._others["\x0f"] = None
        elif sequence == "=":
            self._others["\x1b>"] = None
        elif sequence == "c":  # the terminal is as at its start: on the other screen
            self._modes |= {("?", number): False for number in _FULL_SCREEN}
            self._key_levels, self._has_keys = {}, set()

    def _take_string(self, text: str, at: int, out: list[str]) -> int:
        """Process one piece of a control string; return where the next begins."""
        if plain := _STRING_TEXT.match(text, at):
            self._take_string_text(plain.group(), out)
            return plain.end()
        character = text[at]
        if character == "\x1b" and at + 1 == len(text):
            self._unfinished_text = character
            return at + 1
        if character not in "\x07\x18\x1a\x1b\x9c":  # a control character that does not belong into a string
            return at + 1
        if self._verdict == "more":
            self._decide(out, is_whole=True)
        if self._verdict == "pass":
            out.append("\x07" if character == "\x07" else _END)
        self._string = ""
        return at + 2 if text.startswith(_END, at) else at if character == "\x1b" else at + 1

    def _take_string_text(self, text: str, out: list[str]) -> None:
        if self._verdict == "more":
            self._head += text
            self._decide(out, is_whole=False)
        elif self._verdict == "pass":
            self._pass_string(text, out)

    def _pass_string(self, text: str, out: list[str]) -> None:
        """Pass on a part of a string; end the string if it is too long for a title, a colour or a link."""
        number = self._head.partition(";")[0]
        if self._string == "]" and number in _UNDO_COMMANDS and (number in {"8", "9"} or _COLOUR.search(text)):
            self._others[_UNDO_COMMANDS[number]] = None
        is_bounded = self._string == "]" and not self._head.startswith(f"{_CLIPBOARD};")
        room = _LONGEST_STRING - self._string_characters
        self._string_characters += len(text)
        if is_bounded and len(text) > room:
            out += [text[:room], _END]
            self._verdict = "drop"
        else:
            out.append(text)

    def _decide(self, out: list[str], *, is_whole: bool) -> None:
        """Decide whether to pass the current string, if its head is long enough for that."""
        self._verdict = self._judge(self._head[:_LONGEST_HEAD])  # independent of how the output is split into pieces
        if self._verdict == "more" and (is_whole or len(self._head) > _LONGEST_HEAD):
            is_harmless = self._string == "_" or (self._string == "]" and self._head in _COLOURS)
            self._verdict = "pass" if is_whole and is_harmless else "drop"
        if self._verdict == "pass":
            if self._string == "]" and self._head.partition(";")[0] in _TITLES and not self._has_title:
                self._has_title = True
                out.append(_PUSH_TITLE)
            out.append(f"\x1b{self._string}")
            self._pass_string(self._head, out)

    def _judge(self, head: str) -> Verdict:
        match self._string:
            case "]":
                return self._judge_command(head)
            case "P":
                if _DEVICE.match(head):
                    return "pass"
                return "more" if _DEVICE_HEAD.fullmatch(head) else "drop"
            case "_":
                return _judge_graphics(head)
            case _:
                return "drop"

    def _judge_command(self, head: str) -> Verdict:
        number, semicolon, rest = head.partition(";")
        if not semicolon:
            return "more"
        if number == "9":  # notifications and more; only progress (9;4) passes
            return "more" if not rest else "pass" if rest[0] == "4" and rest[1:2] in {"", ";"} else "drop"
        if number == _CLIPBOARD and self.may_copy:
            _, second, content = rest.partition(";")
            return "more" if not second or not content else "drop" if content.startswith("?") else "pass"
        return "pass" if number in _TITLES | _COLOURS | _MARKS else "drop"


def _judge_graphics(head: str) -> Verdict:
    """Pass pictures whose data the program sends, but none that the terminal would read from a file."""
    if not head.startswith("G"):
        return "drop"
    keys, semicolon, _ = head.partition(";")
    if _GRAPHICS_FROM_FILES.search(keys):
        return "drop"
    return "pass" if semicolon else "more"
