"""What could be guessed, and what could not."""

import secrets
import string

from tests.cases import for_each

from gloveport.secrets.strength import guess_bits, is_guessable


@for_each(
    "value",
    [
        "hunter2hunter2",
        "password123",
        "Summer2026!",
        "aaaaaaaaaaaaaaaaaaaaaaaa",
        "20260131",
        "correct-horse-battery",
        "x7Kp2mQ9",
        "abababababababababababab",
        "postgres",
        "Administrator1",
    ],
)
def test_what_a_person_makes_up_is_guessable(value):
    assert is_guessable(value), guess_bits(value)


@for_each("length", [16, 20, 40])
@for_each("alphabet", [string.ascii_letters + string.digits, string.hexdigits.lower()])
def test_what_is_random_and_long_enough_is_not(alphabet, length):
    wrong = 0
    for _ in range(200):
        wrong += is_guessable("".join(secrets.choice(alphabet) for _ in range(length)))
    assert wrong <= 20, "an estimate, seldom wrong"


@for_each(
    "value",
    [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "sk-proj-8fKq2LmZpX0vT7rWnYb3",
        "s3cr3t/alpha+VALUE=4711",
        "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "0f8fad5b-d9cb-469f-a165-70867728950e",
    ],
)
def test_what_services_hand_out_is_not(value):
    assert not is_guessable(value), guess_bits(value)
