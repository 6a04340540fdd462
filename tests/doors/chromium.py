"""A headless Chromium of Debian, driven as a person drives it: by clicks and keys at places on the screen.

Its DevTools protocol runs over two pipes, so nothing listens and no other program is needed. An element is found by
its words or by a selector, scrolled into view, and clicked in its middle: a click that something else covers misses.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.doors.software import Missing
from tests.processes.waiting import wait_until

START_S = 60.0
ANSWER_S = 30.0
SEE_S = 20.0
NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu"),
    *("--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--no-proxy-server"),
)
# An element that shows these words, and none of its children shows them all.
FIND = """
(words, selector) => {
  const shown = (one) => one.getClientRects().length > 0 && getComputedStyle(one).visibility !== "hidden";
  const says = (one) => (one.innerText ?? one.textContent).includes(words);  // an SVG has no innerText
  const fits = [...document.querySelectorAll(selector)].filter((one) => shown(one) && says(one));
  return fits.filter((one) => !fits.some((other) => other !== one && one.contains(other)))[0] || null;
}
"""


class Page:
    """A page in a browser. messages: of its console that are errors, and exceptions nobody caught."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session
        self.messages: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, session=self._session, **parameters)

    def on_event(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(parameters["exceptionDetails"])[:400])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.messages.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    # --- what a person does -------------------------------------------------------------------------------------------
    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def click(self, words: str, selector: str = "button, a, [role=tab], label, tr, td") -> None:
        """Click on the element with these words, once it can be seen."""
        x, y = wait_until(lambda: self._middle(words, selector), timeout_s=SEE_S, what=lambda: self._unseen(words))
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            buttons = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **buttons)

    def point(self, selector: str) -> None:
        """Move the mouse over it."""
        x, y = wait_until(lambda: self._middle("", selector), timeout_s=SEE_S, what=selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def write(self, selector: str, text: str) -> None:
        """Click into a field, empty it, and type."""
        self.click("", selector)
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        self.press("Backspace", 8)
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def enter(self) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, **text)

    # --- what a person sees -------------------------------------------------------------------------------------------
    def text(self) -> str:
        """All words on the page that can be seen."""
        return str(self.value("document.body ? document.body.innerText : ''"))

    def sees(self, *words: str, timeout_s: float = SEE_S) -> None:
        """Wait until all these words are on the page."""

        def missing() -> list[str]:
            text = self.text()
            return [word for word in words if word not in text]

        wait_until(lambda: not missing(), timeout_s=timeout_s, what=lambda: f"{missing()} in {self.text()!r:.1500}")

    def sees_no(self, words: str) -> None:
        wait_until(lambda: words not in self.text(), timeout_s=SEE_S, what=f"an end of {words!r}")

    def value(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(json.dumps(found["exceptionDetails"])[:400])
        return found["result"].get("value")

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, scheme: str) -> None:
        """light or dark, as the browser's owner wishes."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        """What is on the screen, as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _middle(self, words: str, selector: str) -> list[float] | None:
        found: list[float] | None = self.value(
            f"""(() => {{
              const one = ({FIND})({json.dumps(words)}, {json.dumps(selector)});
              if (!one || one.disabled) return null;
              one.scrollIntoView({{block: "nearest", inline: "nearest"}});
              const box = one.getBoundingClientRect();
              const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
              const top = document.elementFromPoint(x, y);
              return top && (one.contains(top) || top.contains(one)) ? [x, y] : null;
            }})()"""
        )
        return found

    def _unseen(self, words: str) -> str:
        return f"{words!r} to click on in {self.text()!r:.1500}"


class Chromium:
    """A browser with a profile of its own in a folder."""

    def __init__(self, folder: Path) -> None:
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        if program is None:
            raise Missing("no Chromium: Debian's package `chromium`")
        there, self._out = os.pipe()
        self._in, back = os.pipe()
        command = [program, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # Chromium starts for root in no other way
        self._log = (folder / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{there} 4>&{back}', *command],
            pass_fds=(there, back),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        os.close(there)
        os.close(back)
        self._number = 0
        self._bytes = b""
        self._pages: dict[str, Page] = {}
        self.call("Browser.getVersion", timeout_s=START_S)

    def page(self) -> Page:
        """A new page, of 1280 by 900."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.size(1280, 900)
        return page

    def call(self, method: str, *, session: str = "", timeout_s: float = ANSWER_S, **parameters: Any) -> dict[str, Any]:
        """Ask the browser, and wait for its answer; events on the way go to their pages."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            asked["sessionId"] = session
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        end_s = time.monotonic() + timeout_s
        while True:
            told = self._message(end_s)
            if told.get("id") == self._number:
                if "error" in told:
                    raise AssertionError(f"{method}: {told['error']}")
                result: dict[str, Any] = told["result"]
                return result
            if page := self._pages.get(told.get("sessionId", "")):
                page.on_event(told["method"], told["params"])

    def _message(self, end_s: float) -> dict[str, Any]:
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end_s - time.monotonic()))
            part = os.read(self._in, 1 << 20) if ready else b""
            if not part:
                raise AssertionError("the browser does not answer" if not ready else "the browser has ended")
            self._bytes += part
        raw, _, self._bytes = self._bytes.partition(b"\0")
        told: dict[str, Any] = json.loads(raw)
        return told

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close", timeout_s=5)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._log.close()


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[Chromium]:
    """A browser until the end of the block."""
    browser = Chromium(folder)
    try:
        yield browser
    finally:
        browser.close()
