"""Generates bookings of real flights, because the data of the flights has no personal data.

Invariant: the same seed gives the same bookings, byte for byte. A customer has the same name, e-mail and passport on
every edge. No customer is real: addresses are of example domains (RFC 2606), phone numbers of the 555-01xx range.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TypedDict
from uuid import UUID

from aggregator.sandbox.flights import Flight

SUBJECT = "bookings-value"
TOPIC = "bookings"
CUSTOMERS = 20_000

_FIRST = ("Ada", "Bora", "Chloé", "Deniz", "Emil", "Fatima", "Grzegorz", "Hana", "Iris", "Jane", "Kofi", "Lucía")
_LAST = ("Adler", "Brandt", "Chen", "Doe", "Eriksen", "Fischer", "García", "Haddad", "Ito", "Żółć", "Klein", "Lopez")
_DOMAINS = ("example.com", "example.org", "example.net")
_RELATIONS = ("partner", "parent", "child", "friend", "assistant")
_CABINS = ("ECONOMY",) * 7 + ("PREMIUM", "BUSINESS", "FIRST")
_METHODS = ("CARD", "CARD", "CARD", "VOUCHER", "INVOICE")
_FARES = {"ECONOMY": 1, "PREMIUM": 2, "BUSINESS": 4, "FIRST": 7}
_NOTES = (
    "wheelchair for {name}, call {phone} on arrival",
    "vegetarian meal; receipts to {email}",
    "travels with a dog, passport {passport}",
    "window seat for {name}, please",
)


class Passenger(TypedDict):
    """A passenger of a booking, with personal data."""

    name: str
    email: str
    passport: str | None
    phone: str | None
    birth_date: date


class Contact(TypedDict):
    """The contact person of a booking."""

    relation: str
    name: str
    email: str | None
    phone: str


class Payment(TypedDict):
    """Describes how a booking was paid."""

    method: str
    card_last4: str | None


class Booking(TypedDict):
    """One booking, in the form of the Avro schema `demo.Booking`."""

    booking_id: UUID
    flight_id: str
    customer_id: str
    booked_at: datetime
    cabin: str
    price: Decimal
    currency: str
    seat: str | None
    passenger: Passenger
    contacts: list[Contact]
    payment: Payment
    bags: int
    note: str | None


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer who books. One number always gives the same customer."""

    customer_id: str
    name: str
    email: str
    phone: str
    passport: str
    birth_date: date


def customer(number: int) -> Customer:
    """The customer of a number."""
    draw = random.Random(f"customer/{number}")
    first, last = draw.choice(_FIRST), draw.choice(_LAST)
    return Customer(
        f"C-{number:06d}",
        f"{first} {last}",
        f"{first}.{last}{number}@{draw.choice(_DOMAINS)}".lower(),
        f"+1-{draw.randrange(201, 990)}-555-01{draw.randrange(100):02d}",
        f"{draw.choice('CXEP')}{draw.randrange(10**8):08d}",
        date(1940, 1, 1) + timedelta(days=draw.randrange(25_000)),
    )


def generate_bookings(flights: Sequence[Flight], count: int, draw: random.Random) -> Iterator[Booking]:
    """`count` bookings, spread evenly over `flights` in their order."""
    known: dict[int, Customer] = {}
    for index in range(count):
        flight = flights[index * len(flights) // count]
        number = draw.randrange(CUSTOMERS)
        if number not in known:
            known[number] = customer(number)
        yield _booking(flight, known[number], draw)


def _booking(flight: Flight, who: Customer, draw: random.Random) -> Booking:
    cabin = draw.choice(_CABINS)
    method = draw.choice(_METHODS)
    fare = Decimal(draw.randrange(4_000, 20_000) + 10 * flight["distance_miles"]) * _FARES[cabin] / 100
    return Booking(
        booking_id=UUID(int=draw.getrandbits(128), version=4),
        flight_id=flight["flight_id"],
        customer_id=who.customer_id,
        booked_at=flight["scheduled_departure"] - timedelta(seconds=draw.randrange(3600, 90 * 86_400)),
        cabin=cabin,
        price=fare.quantize(Decimal("0.01")),
        currency="USD",
        seat=_maybe(draw, 0.7, f"{draw.randrange(1, 40)}{draw.choice('ABCDEF')}"),
        passenger=_passenger(who, draw),
        contacts=[_contact(draw) for _ in range(draw.randrange(3))],
        payment=Payment(method=method, card_last4=f"{draw.randrange(10_000):04d}" if method == "CARD" else None),
        bags=draw.randrange(3),
        note=_maybe(draw, 0.3, _note(who, draw)),
    )


def _passenger(who: Customer, draw: random.Random) -> Passenger:
    return Passenger(
        name=who.name,
        # People spell their address in different ways. The policy's normalisation makes one token of it.
        email=_maybe(draw, 0.1, who.email.upper()) or who.email,
        passport=_maybe(draw, 0.6, who.passport),
        phone=_maybe(draw, 0.8, who.phone),
        birth_date=who.birth_date,
    )


def _contact(draw: random.Random) -> Contact:
    first, last = draw.choice(_FIRST), draw.choice(_LAST)
    return Contact(
        relation=draw.choice(_RELATIONS),
        name=f"{first} {last}",
        email=_maybe(draw, 0.5, f"{first}.{last}@{draw.choice(_DOMAINS)}".lower()),
        phone=f"+1-{draw.randrange(201, 990)}-555-01{draw.randrange(100):02d}",
    )


def _note(who: Customer, draw: random.Random) -> str:
    return draw.choice(_NOTES).format(name=who.name, phone=who.phone, email=who.email, passport=who.passport)


def _maybe(draw: random.Random, share: float, value: str) -> str | None:
    return value if draw.random() < share else None
