"""Estimates whether a secret could be guessed by trial: simply, and too high rather than too low. Pure.

If a program's own text is scrubbed, it has guessed a secret. Nothing keeps programs from trying, which is hopeless
against a random token, but not against a password of words and digits.
"""

import math
import re
from string import ascii_lowercase, ascii_uppercase, digits

from gloveport.late_pattern import late_pattern

LEAST_BITS = 50.0
"""Too many for a trial of each."""

_LETTERS = late_pattern(r"[A-Za-z]{4,}")
_LIKE_A_WORD = late_pattern(r"[A-Z]?[a-z]+")
_VOWEL, _CONSONANTS = late_pattern(r"[aeiouy]", re.IGNORECASE), late_pattern(r"[^aeiouy]{5}", re.IGNORECASE)
_VOWELS = (0.2, 0.7)
"""The least and the greatest share of vowels in a word."""
_BITS_OF_A_LETTER = 1.5
"""For a letter in a word: Shannon's estimate for English is 0.6 to 1.3."""
_REPEATED = 1.5
_CLASSES = (ascii_lowercase, ascii_uppercase, digits)
_OTHERS = 33


def is_guessable(value: str) -> bool:
    """Tell whether fewer than ``LEAST_BITS`` bits have to be guessed."""
    return guess_bits(value) < LEAST_BITS


def guess_bits(value: str) -> float:
    """Estimate how many bits an attacker has to guess who knows how people make passwords."""
    if not value:
        return 0.0
    in_words = sum(len(run) for run in _LETTERS.findall(value) if _is_word(run))
    bits = _bits_of_one(value)
    by_letter = in_words * _BITS_OF_A_LETTER + (len(value) - in_words) * bits
    return min(by_letter, len({*value}) * bits * _REPEATED)  # repetition adds little


def _is_word(run: str) -> bool:
    share = len(_VOWEL.findall(run)) / len(run)
    alike = _LIKE_A_WORD.fullmatch(run) is not None
    return alike and _VOWELS[0] <= share <= _VOWELS[1] and _CONSONANTS.search(run) is None


def _bits_of_one(value: str) -> float:
    """The bits of one random character from the classes that occur."""
    class_letters = sum(len(one) for one in _CLASSES if not {*one}.isdisjoint(value))
    others = _OTHERS if any(all(letter not in one for one in _CLASSES) for letter in value) else 0
    return math.log2(class_letters + others)
