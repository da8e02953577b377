"""Check digits, which distinguish a card number or an IBAN from any other row of digits."""

import unicodedata

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
_ORDER_OF_TEN = 96  # modulo 97
_POWERS = tuple(pow(10, exponent, 97) for exponent in range(_ORDER_OF_TEN))


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


class Mod97:
    """ISO 13616 for any part of a row of ASCII letters and digits: account, country and check digits leave 1.

    Remainders and how many digits they have, modulo the order of ten, are kept, a byte each, so that many parts of one
    row cost no more than the row.
    """

    def __init__(self, signs: str) -> None:
        self._remainders, self._digits = bytearray(1), bytearray(1)
        remainder = digits = 0
        for sign in signs.upper():
            number = _ALPHABET.index(sign)
            width = 1 if number < 10 else 2  # noqa: PLR2004 - a letter is a number of two digits
            remainder, digits = (remainder * 10**width + number) % 97, (digits + width) % _ORDER_OF_TEN
            self._remainders.append(remainder)
            self._digits.append(digits)

    def passes(self, start: int, end: int) -> bool:
        """Whether the check digits of a part are right, which stand behind its country, at the beginning."""
        account = start + 4
        return (self._number(account, end) * self._power(start, account) + self._number(start, account)) % 97 == 1

    def _number(self, start: int, end: int) -> int:
        return (self._remainders[end] - self._remainders[start] * self._power(start, end)) % 97

    def _power(self, start: int, end: int) -> int:
        return _POWERS[self._digits[end] - self._digits[start]]
