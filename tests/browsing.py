"""A real browser: Debian's chromium, driven by playwright."""

import shutil
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

from tests.programs import require

PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


@contextmanager
def chromium():
    """A browser without a window, until the block ends."""
    require("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One open page, with everything that the browser complained about."""

    def __init__(self, browser, address: str, *, size=DESKTOP, scheme="light", script=True):
        self.context = browser.new_context(
            viewport=size, color_scheme=scheme, java_script_enabled=script, reduced_motion="reduce"
        )
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.address = address
        self.page.goto(address)

    def go(self, path: str) -> None:
        """To another place of the page."""
        self.page.goto(self.address + path)

    def state(self, edge: str) -> str:
        """The state that the list of edges shows."""
        return self.page.locator(f"#edge-{edge} .state").inner_text().strip()

    def wait_for_state(self, edge: str, word: str, timeout_s: float) -> None:
        """Until the list of edges shows it; the page is not loaded again."""
        self.page.wait_for_function(
            "([edge, word]) => document.querySelector(`#edge-${edge} .state`)?.textContent.trim() === word",
            arg=[edge, word],
            timeout=timeout_s * 1000,
            polling=50,
        )

    def close(self) -> None:
        self.context.close()
