"""Check digits: what tells a card number or an IBAN from any other row of digits."""

import unicodedata

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


class Luhn:
    """ISO/IEC 7812-1, annex B, for any part of a row of digits; digits of any script, whatever stands between them.

    Sums of both parities are kept, a byte each, so that many parts of one row cost no more than the row.
    """

    def __init__(self, digits: str) -> None:
        self._sums = (bytearray(1), bytearray(1))
        for place, digit in enumerate(filter(str.isdecimal, digits)):
            number = unicodedata.digit(digit)
            for odd, sums in enumerate(self._sums):
                sums.append((sums[-1] + (_DOUBLED[number] if place % 2 == odd else number)) % 10)

    def passes(self, start: int, end: int) -> bool:
        """Whether the check digit of a part is right; from the right, every second digit is doubled."""
        sums = self._sums[end % 2]
        return (sums[end] - sums[start]) % 10 == 0


def passes_luhn(digits: str) -> bool:
    """Whether the check digit of a whole row is right."""
    return Luhn(digits).passes(0, sum(map(str.isdecimal, digits)))


def passes_mod97(iban: str) -> bool:
    """ISO 13616, ASCII only: the country and check digits behind the account, letters as numbers, leave 1."""
    remainder = 0
    for sign in (iban[4:] + iban[:4]).upper():
        number = _ALPHABET.index(sign)
        remainder = (remainder * (10 if number < 10 else 100) + number) % 97  # noqa: PLR2004 - one digit or two
    return remainder == 1
