"""The page in a real browser, without a hub: it stays current in place, reads on every screen, and shuts nobody out."""

import dataclasses
from pathlib import Path

import pytest

from aggregator.page.server import PageServer
from aggregator.threads import Threads
from tests.browsing import DESKTOP, PHONE, Visit, chromium
from tests.unit.observe.hubs import edge, flow
from tests.unit.page.showing import TOKEN, Watched, config, troubled

SHOTS = Path("artifacts")
CONTRAST, CONTRAST_LARGE = 4.5, 3.0
# Every text with the colours that it is drawn with; what lies behind it is the nearest background that is not clear.
TEXTS = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const clear = (colour) => colour === 'transparent' || (rgb(colour).length === 4 && rgb(colour)[3] === 0);
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, text = walk.currentNode.nodeValue.trim();
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (!text || !box.width || box.right < 0 || ['TITLE', 'NOSCRIPT', 'SCRIPT'].includes(element.nodeName)) continue;
    const inPicture = element.ownerSVGElement;
    let behind = element;
    while (behind && clear(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
    const hub = element.matches('.hub-name, .hub-rate');
    found.push({
      text, inPicture: !!inPicture, size: parseFloat(style.fontSize), weight: parseInt(style.fontWeight),
      ink: rgb(inPicture ? style.fill : style.color).slice(0, 3),
      ground: rgb(hub ? getComputedStyle(document.querySelector('circle.hub')).fill
                      : getComputedStyle(behind ?? document.body).backgroundColor).slice(0, 3),
    });
  }
  return found;
}"""
NAMELESS = """() => [...document.querySelectorAll('a, button, input, summary, progress, svg[role=img], [tabindex="0"]')]
  .filter((one) => one.getClientRects().length)
  .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.getAttribute('aria-labelledby')
    || (one.labels && one.labels.length)))
  .map((one) => one.outerHTML.slice(0, 120))"""
FOCUSED = """() => { const one = document.activeElement;
  return [one.nodeName + ' ' + (one.ariaLabel || one.textContent || '').trim().slice(0, 40),
    getComputedStyle(one).outlineStyle !== 'none' || one.closest('svg') !== null]; }"""


@pytest.fixture(scope="module")
def browser():
    """One browser for all."""
    with chromium() as made:
        yield made


@pytest.fixture
def served():
    """A page over the troubled hub; what it shows can be replaced."""
    hub = config(ui={"listen": "127.0.0.1:0"})
    server, watched = PageServer(hub, {}, Threads()), Watched(troubled())
    server.serve(watched)
    yield server, watched
    server.close()


@pytest.fixture
def visit(browser, served):
    """Opens the page; every visit must have pleased the browser, and its content policy."""
    visits = []

    def open_(path="", **options) -> Visit:
        visits.append(Visit(browser, served[0].address + path, **options))
        return visits[-1]

    yield open_
    complaints = [one for made in visits for one in made.complaints]
    for made in visits:
        made.close()
    assert complaints == []


def renewed(number: int, **changes):
    """The troubled hub a moment later: `eu` has changed, and every flow has delivered more."""
    seen = troubled()
    flows = tuple(dataclasses.replace(one, delivered=4321) for one in seen.status.flows)
    edges = (edge("eu", **changes), *seen.status.edges[1:])
    return dataclasses.replace(seen, number=number, status=dataclasses.replace(seen.status, edges=edges, flows=flows))


def test_the_page_stays_current_in_place(visit, served):
    """A new state appears without a reload: focus, scrolling and what is unfolded stay where they were."""
    opened = visit("edges/eu")
    page = opened.page
    page.locator("#partitions-orders summary").click()
    page.locator("#partitions-orders summary").focus()
    page.evaluate("window.scrollTo(0, 120); window.mark = 1")
    served[1].seen = renewed(8, state="STALLED", reason="1 flow waits")
    page.wait_for_function("() => document.querySelector('h1 .state').textContent.trim() === 'Stalled'", timeout=3000)
    assert "4,321" in page.locator("#partitions-orders").inner_text()
    kept = "[window.mark, scrollY, document.activeElement.nodeName, document.querySelector('details').open]"
    assert page.evaluate(kept) == [1, 120, "SUMMARY", True]
    started = visit()
    served[1].seen = renewed(9, state="PAUSED", reason="by ada")
    started.wait_for_state("eu", "Paused", 3)
    assert started.page.locator("a.node.rest").get_attribute("aria-label").startswith("eu: Paused")


def test_a_silent_server_is_told_and_its_return_too(browser):
    """When the page's server ends, the page says that it is old; when it is back, it goes on by itself."""
    hub = config(ui={"listen": "127.0.0.1:0"})
    server = PageServer(hub, {}, Threads())
    server.serve(Watched(troubled()))
    port = server.address.rstrip("/").rpartition(":")[2]
    opened = Visit(browser, server.address)
    opened.page.locator("#edge-eu").wait_for()
    server.close()
    opened.page.locator(".lost").wait_for(timeout=5000)
    again = PageServer(config(ui={"listen": f"127.0.0.1:{port}"}), {}, Threads())
    again.serve(Watched(renewed(8, state="STALLED", reason="stuck")))
    try:
        opened.wait_for_state("eu", "Stalled", 8)
        assert opened.page.locator(".lost").count() == 0
    finally:
        opened.close()
        again.close()


def test_what_is_old_is_grey(browser, visit, served):
    """A green dot over what nobody has seen for a while is a lie: without a new snapshot, and without a server."""
    opened = visit()
    page = opened.page
    colours = "getComputedStyle(document.querySelector('main')).filter"
    assert page.evaluate(colours) == "none"
    page.locator(".snapshot-age.old").wait_for(timeout=10_000)
    assert page.evaluate(colours) == "grayscale(1)"
    page.wait_for_function(
        "() => document.querySelector('h1').textContent.trim().startsWith('Not current')", timeout=5000
    )
    served[1].seen = renewed(8)
    page.wait_for_function("() => !document.querySelector('.snapshot-age.old')", timeout=5000)
    assert page.evaluate(colours) == "none"
    server = PageServer(config(ui={"listen": "127.0.0.1:0"}), {}, Threads())
    server.serve(Watched(troubled()))
    alone = Visit(browser, server.address)
    alone.page.locator("#edge-eu").wait_for()
    server.close()
    alone.page.locator(".lost").wait_for(timeout=5000)
    assert alone.page.evaluate(colours) == "grayscale(1)"
    assert alone.page.title().startswith("Not current")
    alone.close()


def test_a_command_is_copied_whole(visit):
    """The button puts on the clipboard what the card shows."""
    opened = visit()
    page = opened.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    card = page.locator("#needs li", has_text="us/orders/0")
    card.locator(".copy").click()
    card.locator(".copy", has_text="Copied").wait_for(timeout=2000)
    said = 'aggregator gaps accept --edge us --topic orders --partition 0 --reason "…"'
    assert page.evaluate("navigator.clipboard.readText()") == said
    card.locator(".runbook").click()
    assert page.locator("h1").inner_text() == "An accepted gap"


def test_two_hundred_topics_are_looked_through(visit, served):
    """A word finds a topic that is folded away, also after the page has renewed itself, and hides all others."""
    flows = [flow("eu", f"orders-{number}", 0) for number in range(200)]
    status = dataclasses.replace(troubled().status, flows=tuple(flows))
    served[1].seen = dataclasses.replace(troubled(), number=8, status=status)
    opened = visit("edges/eu")
    page = opened.page
    page.locator("#filter").fill("orders-19")
    shown = "[...document.querySelectorAll('[data-name]')].filter((one) => one.checkVisibility()).length"
    assert page.evaluate(shown) == 11
    served[1].seen = dataclasses.replace(served[1].seen, number=9, letters={("eu", "orders-190", "bad_key"): 77})
    page.locator("#losses", has_text="77").wait_for(timeout=4000)
    page.wait_for_timeout(200)
    assert page.evaluate(shown) == 11
    page.locator("#filter").fill("")
    assert page.evaluate(shown) == 200


def test_on_a_telephone_no_table_is_scrolled_sideways(visit):
    """Each row is a card, with the name of each value beside it."""
    opened = visit(size=PHONE)
    page = opened.page
    for path in ("", "edges/eu", "edges/us", "edges/eu/topics/crew"):
        opened.go(path)
        wide = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        assert page.evaluate(wide) == 0, path
    opened.go("")
    label = "getComputedStyle(document.querySelector('#lake td'), '::before').content"
    assert page.evaluate(label) == '"Quality"'


def test_without_a_script_everything_is_there(visit):
    """The plain document: states, reasons, tables; it asks to be loaded again after some seconds."""
    opened = visit(script=False)
    assert opened.state("ap") == "Unreachable"
    assert opened.page.locator("noscript meta[http-equiv=refresh]").count() == 1
    assert "retail version 3" in opened.page.locator("#stripped").inner_text()


def test_the_page_fits_the_screen(visit):
    """Nothing sticks out at the width of a phone or a desk; the pictures lie in `artifacts/` for whoever wants them."""
    opened = visit()
    page = opened.page
    SHOTS.mkdir(exist_ok=True)
    for name, size in (("phone", PHONE), ("desktop", DESKTOP)):
        page.set_viewport_size(size)
        for path in ("", "edges/eu", "edges/us"):
            opened.go(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], (name, path)
            page.screenshot(path=SHOTS / f"page-{name}-{path.replace('/', '-') or 'start'}.png", full_page=True)


def luminance(colour) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [value / 255 for value in colour]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_text_can_be_read(visit):
    """WCAG 2, AA: 4.5 to 1, and 3 to 1 for large text, in both schemes, computed from what the browser draws."""
    opened = visit()
    for path in ("sign-in", "", "edges/eu", "edges/us"):
        opened.go(path)
        for scheme in ("light", "dark"):
            opened.page.emulate_media(color_scheme=scheme)
            texts = opened.page.evaluate(TEXTS)
            assert len(texts) > (50 if path != "sign-in" else 4)
            for one in texts:
                bright, dim = sorted((luminance(one["ink"]), luminance(one["ground"])), reverse=True)
                large = one["size"] >= 24 or (one["size"] >= 18.66 and one["weight"] >= 700)
                assert (bright + 0.05) / (dim + 0.05) >= (CONTRAST_LARGE if large else CONTRAST), (scheme, path, one)


def test_everything_has_a_name_and_the_keyboard_reaches_it(visit):
    """Links, fields, drawings and regions say what they are; Tab goes down the page, and shows where it is."""
    opened = visit()
    page = opened.page
    for path, least in (("sign-in", 4), ("edges/eu", 8), ("", 8)):
        opened.go(path)
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate("document.documentElement.lang") == "en"
        assert page.locator("h1").count() == page.locator("main").count() == 1
        levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((one) => +one.nodeName[1])")
        assert all(later - before <= 1 for before, later in zip([0, *levels], levels, strict=False))
        steps = []
        while len(steps) < 12 and (not steps or not steps[-1][0].startswith("BODY")):
            page.keyboard.press("Tab")
            steps.append(page.evaluate(FOCUSED))
        assert steps[0][0].startswith("A To the content")
        reached = [step for step in steps if not step[0].startswith("BODY")]
        assert len({name for name, _ in reached}) >= least
        assert all(is_seen for _, is_seen in reached)


def test_whoever_has_the_token_comes_in(browser, tmp_path):
    """Through the door with a keyboard; a wrong token is told at the field, and the stream opens with the session."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    server = PageServer(config(ui={"listen": "127.0.0.1:0", "token": f"file:{token}"}), {}, Threads())
    watched = Watched(troubled())
    server.serve(watched)
    opened = Visit(browser, server.address)
    page = opened.page
    try:
        assert page.url.endswith("/sign-in")
        page.get_by_label("Token of this page").fill("not the token")
        page.keyboard.press("Enter")
        page.get_by_role("alert").wait_for()
        page.get_by_label("Token of this page").fill(TOKEN)
        page.keyboard.press("Enter")
        page.locator("#edge-eu").wait_for()
        watched.seen = renewed(8, state="STALLED", reason="stuck")
        opened.wait_for_state("eu", "Stalled", 3)
        assert TOKEN not in page.content()
        assert page.evaluate("document.cookie") == ""
    finally:
        opened.close()
        server.close()
