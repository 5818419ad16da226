"""A headless Chromium, driven by the DevTools protocol over a pair of pipes: no package is needed for it."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = f"no browser to look at the page with: `apt-get install chromium` (looked for {', '.join(NAMES)})"


def find() -> str | None:
    """The browser's path, if one is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in a browser of its own."""

    def __init__(self) -> None:
        self.errors: list[str] = []  # of the console, since the page was opened
        self._number = 0
        self._buffer = b""
        self._profile = tempfile.mkdtemp(prefix="modeseek-browser-")
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # The browser reads commands from 3 and answers on 4, so that the pipes' own ends must be neither.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands, answers)]
        actions = [(os.POSIX_SPAWN_DUP2, end, number) for end, number in zip(ends, (3, 4), strict=True)]
        null = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        arguments = ["chromium", *options, f"--user-data-dir={self._profile}", "--remote-debugging-pipe", "about:blank"]
        path = find()
        assert path is not None, MISSING
        self._process = os.posix_spawn(path, arguments, os.environ, file_actions=[*actions, null], setpgroup=0)
        for end in (commands, answers, *ends):
            os.close(end)
        self._session = None
        (target,) = (t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._commands)
        os.close(self._answers)
        shutil.rmtree(self._profile, ignore_errors=True)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command's answer, by its name in the protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, path: Path) -> None:
        """Load a file, and run its scripts."""
        self.errors.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass
        self.settle()

    def resize(self, width: int, height: int) -> None:
        """The window; up to 700 pixels it is a phone's."""
        scale = {"deviceScaleFactor": 1, "mobile": width <= 700}
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, **scale)

    def settle(self) -> None:
        """Until what the last change has brought about is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; of a promise, what it gives."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, path: Path, selector: str | None = None) -> None:
        """The page, or an element of it, as a PNG."""
        where = f"document.querySelector({json.dumps(selector or 'html')}).getBoundingClientRect()"
        x, y, width, height = self.run(f"(r => [r.x, r.y + scrollY, r.width, r.height])({where})")
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser has ended"
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, params: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(str(params["entry"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str(params["args"]))
