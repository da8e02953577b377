"""Checks step by step whether a cluster can be reached: name, route, port, TLS, Kafka, mechanism, password, advertised
listeners.

Invariant: pure. Facts come in, and findings go out. A step that was not reached gives no finding, so the first failed
step is the first to mend.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from aggregator.config.fields import is_loopback
from aggregator.doctor.finding import CheckState, Finding, failed, listed, ok, warning
from aggregator.doctor.obstacles import STEPS, explained
from aggregator.kafka.client.address import Address
from aggregator.kafka.probes.cluster_view import ClusterView, SignInResult
from aggregator.kafka.probes.listener import Certificate, Listener, Obstacle
from aggregator.moments import iso

_SOON_MS = 30 * 86_400_000
_LAST_WORDS = {
    "name": "every name is known",
    "route": "there is a way to every address",
    "port": "every port is open",
    "tls": "every certificate is believed",
    "protocol": "every listener speaks Kafka",
}
_NOT_IN_BUILD = ("No provider for SASL mechanism", "Unsupported SASL mechanism", "is not in this librdkafka")


@dataclass(frozen=True, slots=True)
class Reach:
    """The findings on the way to a cluster.

    Attributes:
        client: Those options of the `client:` block that are not secret.
        bootstrap: Every address of `bootstrap_servers`.
        sign_ins: Results of signing in, by the first address.
        advertised: The brokers' own addresses beside those, by broker.
        settings: The reason why the `client:` block cannot be used at all; empty if it can.
        settings_next: The remedy for unusable settings.
        own: The certificate that the client shows.
    """

    client: Mapping[str, str]
    bootstrap: tuple[Listener, ...] = ()
    sign_ins: Mapping[Address, SignInResult] = field(default_factory=dict)
    advertised: Mapping[int, Listener] = field(default_factory=dict)
    settings: str = ""
    settings_next: str = ""
    own: Certificate | None = None

    @property
    def view(self) -> ClusterView | None:
        """The cluster's description of itself; None if nobody could sign in."""
        return next((one.view for one in self.sign_ins.values() if one.view is not None), None)

    @property
    def brokers(self) -> tuple[int, ...]:
        """Brokers that can be asked, by number."""
        open_ones = {one.address for one in self.bootstrap if one.obstacle is None}
        known = self.view.brokers.items() if self.view is not None else ()
        return tuple(
            number
            for number, address in known
            if address in open_ones or (number in self.advertised and self.advertised[number].obstacle is None)
        )

    @property
    def mechanism(self) -> str:
        """The mechanism by which the client signs in; empty if it does not sign in."""
        if not self.client.get("security.protocol", "plaintext").lower().startswith("sasl"):
            return ""
        return (self.client.get("sasl.mechanism") or self.client.get("sasl.mechanisms") or "GSSAPI").upper()

    @property
    def is_encrypted(self) -> bool:
        """Whether the client is configured to use TLS."""
        return self.client.get("security.protocol", "plaintext").lower().endswith("ssl")


def findings(cluster: str, reach: Reach, now_ms: int) -> list[Finding]:
    """Everything about the way to a cluster.

    Args:
        cluster: Name of the cluster.
        reach: The findings on the way to the cluster.
        now_ms: The present, by this machine's clock.
    """
    if reach.settings:
        return [failed(cluster, _setting_check(reach.settings), reach.settings, reach.settings_next)]
    is_over = reach.own is not None and reach.own.until_ms < now_ms
    return list(
        chain(
            _own_end(cluster, reach, now_ms),
            _steps(cluster, reach, left_out=Obstacle.REFUSES_CERTIFICATE if is_over else None),
            _ends(cluster, reach, now_ms),
            _mechanism(cluster, reach),
            _password(cluster, reach),
            _advertised(cluster, reach),
        )
    )


def _setting_check(why: str) -> str:
    if any(words in why for words in _NOT_IN_BUILD):
        return "mechanism"
    return "password" if "secret " in why or "sasl." in why else "tls" if "ssl." in why else "settings"


def _steps(cluster: str, reach: Reach, *, left_out: Obstacle | None) -> Iterator[Finding]:
    """One finding for each unreachable address, and one for each step that all addresses passed.

    What follows from another finding is left out.
    """
    blocked = [one for one in reach.bootstrap if one.obstacle is not None]
    reached = len(blocked) < len(reach.bootstrap)
    state = CheckState.WARNING if reached else CheckState.FAILED
    for one in blocked:
        check, what, then = explained(one)
        if one.obstacle is left_out:
            continue
        yield Finding(cluster, check, state, what, f"{then} (`bootstrap_servers` of {cluster})")
    stopped = {STEPS.index(explained(one)[0]) for one in blocked}
    for place, step in enumerate(STEPS):
        passed = place < min(stopped, default=len(STEPS))
        if passed and (step != "tls" or reach.is_encrypted):
            yield ok(cluster, step, f"{_LAST_WORDS[step]}: {listed(one.address for one in reach.bootstrap)}")


def _ends(cluster: str, reach: Reach, now_ms: int) -> Iterator[Finding]:
    """The brokers' certificates that are believed today and will not be soon."""
    believed = [one for one in reach.bootstrap if one.obstacle is None]
    soon = {
        (one.subject, one.until_ms): listener.address
        for listener in believed
        for one in listener.chain
        if now_ms <= one.until_ms < now_ms + _SOON_MS
    }
    for (subject, until_ms), address in soon.items():
        what = f"the certificate {subject} of {address} expires on {iso(until_ms)}"
        yield warning(cluster, "tls", what, "renew the broker's certificate (its `ssl.keystore`) before that day")


def _own_end(cluster: str, reach: Reach, now_ms: int) -> Iterator[Finding]:
    """The client's own certificate, which an end makes the cause of all that comes after."""
    if reach.own is not None and reach.own.until_ms < now_ms + _SOON_MS:
        is_old = reach.own.until_ms < now_ms
        verb = "has expired" if is_old else "expires"
        what = f"the client's own certificate {reach.own.subject} {verb} on {iso(reach.own.until_ms)}"
        say = failed if is_old else warning
        yield say(cluster, "tls", what, "renew the file of `ssl.certificate.location` (or `ssl.keystore.location`)")


def _mechanism(cluster: str, reach: Reach) -> Iterator[Finding]:
    """Whether the listeners let in whoever signs in as the configuration says."""
    fine = [one.address for one in reach.bootstrap if reach.mechanism and takes(reach, one) and one.mechanisms]
    if fine:
        yield ok(cluster, "mechanism", f"{reach.mechanism} is taken: {listed(fine)}")
    for one in reach.bootstrap:
        if not takes(reach, one):
            yield failed(cluster, "mechanism", *_not_taken(reach, one))


def takes(reach: Reach, one: Listener) -> bool:
    """Whether a listener may let us in, as far as it tells.

    Args:
        reach: The findings, with the client's way of signing in.
        one: The listener.
    """
    if one.obstacle is not None or one.mechanisms == ():
        return True
    return reach.mechanism in one.mechanisms if one.mechanisms is not None else not reach.mechanism


def _not_taken(reach: Reach, one: Listener) -> tuple[str, str]:
    if one.mechanisms is None:
        protocol = "SSL" if reach.is_encrypted else "PLAINTEXT"
        what = f"nobody signs in at {one.address}, and `client` wants to"
        return what, f"set `security.protocol: {protocol}`, or write the port of a SASL listener"
    offered = ", ".join(one.mechanisms)
    if not reach.mechanism:
        protocol = "SASL_SSL" if reach.is_encrypted else "SASL_PLAINTEXT"
        what = f"{one.address} lets in only who signs in ({offered}), and `client` does not"
        return (
            what,
            f"set `security.protocol: {protocol}`, `sasl.mechanism`, `sasl.username` and `sasl.password` in `client`",
        )
    what = f"{one.address} does not take {reach.mechanism}; it takes {offered}"
    return (
        what,
        f"set `sasl.mechanism` to one of these, or add {reach.mechanism} to the broker's `sasl.enabled.mechanisms`",
    )


def _password(cluster: str, reach: Reach) -> Iterator[Finding]:
    closed = {one.address for one in reach.bootstrap if not takes(reach, one)}
    for address, one in reach.sign_ins.items():
        if one.view is not None or address in closed:
            continue
        if "AUTHENTICATION" in one.code:
            what = f"{address} does not let the hub in: {_after_host(one.detail)}"
            then = "check `sasl.username`, and what `sasl.password` refers to"
            if reach.mechanism == "OAUTHBEARER":
                then = "check the client's id and secret, and `sasl.oauthbearer.token.endpoint.url`"
            yield failed(cluster, "password", what, then)
        elif one.code == "_SSL":
            what = f"{address}: librdkafka's handshake fails: {_after_host(one.detail)}"
            yield failed(cluster, "tls", what, "correct the `ssl.*` settings of `client`")
        else:
            what = f"{address} closes every connection after the greeting: {_after_host(one.detail)} ({one.code})"
            yield failed(cluster, "protocol", what, "see the broker's log at this moment")
    if reach.mechanism and reach.view is not None:
        yield ok(cluster, "password", f"the hub is let in by {reach.mechanism}")


def _after_host(detail: str) -> str:
    """A sentence of librdkafka begins with protocol, host and id of the broker."""
    return detail.partition("bootstrap: ")[2] or detail


def _advertised(cluster: str, reach: Reach) -> Iterator[Finding]:
    """Every client connects where the brokers say, and not where the configuration says."""
    view = reach.view
    if view is None:
        return
    here = all(is_loopback(str(one.address)) for one in reach.bootstrap)
    well = True
    for number, one in sorted(reach.advertised.items()):
        says, then = (
            f"broker {number} says that it is reached at {one.address}",
            f"correct `advertised.listeners` of broker {number}",
        )
        is_own = is_loopback(str(one.address)) and not here
        if is_own:
            well = False
            say = warning if one.obstacle is None else failed
            yield say(cluster, "advertised", f"{says}, which is this machine and not the broker's", then)
        elif one.obstacle is not None:
            well = False
            _, what, more = explained(one)
            yield failed(cluster, "advertised", f"{says}, and {what}", f"{then}; or: {more}")
    if well:
        many = f"{len(view.brokers)} broker{'s' if len(view.brokers) > 1 else ''}"
        yield ok(cluster, "advertised", f"{many} can be reached where they say: {listed(view.brokers.values())}")
