"""Headless Chromium, driven through DevTools over a pair of pipes: what a page shows, and does.

https://chromedevtools.github.io/devtools-protocol/ says what is asked; messages end in a NUL.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from child import Child

COMMAND = "chromium"
_CODES = {
    "Tab": 9, "Enter": 13, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
    "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip
"""Windows' virtual key codes, by which a browser knows what a key does."""
PATIENCE_S = 60
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


class Chromium:
    """One browser, with a profile of its own that goes with it."""

    def __init__(self) -> None:
        self._profile = tempfile.mkdtemp(prefix="pgtrace-chromium-")
        theirs_in, self._out = (_high(end) for end in os.pipe())
        self._in, theirs_out = (_high(end) for end in os.pipe())
        self._waiting = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        # The browser reads from descriptor 3 and writes to 4
        self._process = Child(
            "bash", "-c", 'exec "${@:3}" 3<&"$1" 4>&"$2"', "bash", theirs_in,
            theirs_out, COMMAND, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank",
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send one command, and return its result; events that come meanwhile are kept."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(method)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait_until_loaded(self, loader: str | None = None) -> None:
        """That document, or the next: the empty one before it may be told of late."""

        def is_it(event: dict[str, Any]) -> bool:
            if event.get("method") != "Page.lifecycleEvent":
                return False
            told = event["params"]
            return told["name"] == "load" and loader in (None, told["loaderId"])

        while not any(map(is_it, self.events)):
            self.events.append(self._next("load"))

    def _next(self, wanted: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"Chromium did not answer to {wanted} in {PATIENCE_S} s"
            read = os.read(self._in, 1 << 20)
            assert read, f"Chromium ended before it answered to {wanted}"
            self._waiting += read
        one, _, self._waiting = self._waiting.partition(b"\0")
        message: dict[str, Any] = json.loads(one)
        return message

    def open(self, file: Path, *, width: int = 1200, dark: bool = False) -> "Page":
        """Load a file in a tab of its own, and wait until its charts are drawn."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self, attached["sessionId"])
        self.events.clear()
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.ask(f"{domain}.enable")
        page.ask("Emulation.setDeviceMetricsOverride", width=width, height=900,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.ask("Emulation.setEmulatedMedia", features=[scheme])
        page.ask("Page.setLifecycleEventsEnabled", enabled=True)
        loader = page.ask("Page.navigate", url=file.as_uri())["loaderId"]
        self.wait_until_loaded(loader)
        page.settle()
        return page


class Page:
    """A tab with one page in it."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """As Chromium.ask(), of this tab."""
        return self._browser.ask(method, self._session, **params)

    def run(self, script: str) -> Any:
        """Return what a JavaScript expression is, once it is there; AssertionError if it throws."""
        told = self.ask("Runtime.evaluate", expression=script, awaitPromise=True,
                        returnByValue=True)  # fmt: skip
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def settle(self) -> None:
        """Wait for some frames: charts are drawn in the one after they get their place."""
        frame = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
        for _ in range(4):
            self.run(frame)

    def press(self, key: str) -> None:
        """Press and release one key, wherever the focus is."""
        for kind in ("keyDown", "keyUp"):
            code = _CODES.get(key, 0)
            typed = {"Enter": "\r", " ": " "}.get(key)
            text = {"text": typed} if typed and kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                     **text)  # fmt: skip
        self.settle()

    def point(self, x: float, y: float) -> None:
        """Move the mouse there, in pixels of the window."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, x: float, y: float) -> None:
        """Press and release the left button there."""
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def complaints(self) -> list[dict[str, Any]]:
        """What the console told, and exceptions."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for event in self._browser.events if event.get("method") in kinds]

    def requests(self) -> list[str]:
        """The addresses of all that was loaded, the page's own first."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def picture(self, file: Path) -> None:
        """Save the whole page as a PNG."""
        told = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(told["data"]))


def _high(descriptor: int) -> int:
    """The same above 9, where the shell's own redirections cannot hit it."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved
