"""Chromium without a screen, driven over a pipe (the DevTools protocol)."""

import base64
import fcntl
import json
import os
import select
import subprocess
import tempfile
import time

PATIENCE_S = 25
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-extensions",
    "--mute-audio",
]


class Crashed(Exception):
    pass


def command(profile, *flags):
    return ["chromium", *FLAGS, f"--user-data-dir={profile}", *flags]


def environment(profile):
    """What Chromium keeps at home goes into its profile as well."""
    return {**os.environ, "HOME": profile, "XDG_CONFIG_HOME": profile, "XDG_CACHE_HOME": profile}


def run(*flags):
    """One page, one answer: --dump-dom, --screenshot, --print-to-pdf. What it printed."""
    with tempfile.TemporaryDirectory(dir=".", ignore_cleanup_errors=True) as profile:
        profile = os.path.abspath(profile)
        done = subprocess.run(
            command(profile, *flags),
            env=environment(profile),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=True,
        )
    return done.stdout.decode()


class Browser:
    def __enter__(self):
        self._profile = tempfile.TemporaryDirectory(dir=".", ignore_cleanup_errors=True)
        profile = os.path.abspath(self._profile.name)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def plumb():
            """Chromium reads from descriptor 3 and writes to 4."""
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (theirs_in, theirs_out)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            command(profile, "--remote-debugging-pipe", "about:blank"),
            env=environment(profile),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=plumb,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._number, self.events = b"", 0, []
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.call("Browser.close")
        except Crashed:
            pass
        finally:
            os.close(self._out)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            os.close(self._in)
            self._profile.cleanup()

    def call(self, method, session=None, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        try:
            os.write(self._out, json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            raise Crashed("the browser is gone") from None
        end = time.monotonic() + PATIENCE_S
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._noted(answer)

    def wait_for(self, method, session=None, where=lambda parameters: True):
        """The parameters of an event that has come or will come."""
        end = time.monotonic() + PATIENCE_S
        while True:
            for at, event in enumerate(self.events):
                if (
                    event["method"] == method
                    and event.get("sessionId") == session
                    and where(event["params"])
                ):
                    return self.events.pop(at)["params"]
            self._noted(self._receive(end))

    def _noted(self, event):
        if event.get("method") in ("Inspector.targetCrashed", "Target.targetCrashed"):
            raise Crashed("a page crashed")
        if "method" in event:
            self.events.append(event)

    def _receive(self, end):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            got = os.read(self._in, 1 << 16)
            if not got:
                raise Crashed("the browser is gone")
            self._rest += got
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def tab(self, url="about:blank"):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, target, session)
        tab.call("Page.enable")
        if url != "about:blank":
            tab.go(url)
        return tab


class Tab:
    def __init__(self, browser, target, session):
        self.browser, self.target, self._session = browser, target, session

    def call(self, method, **parameters):
        return self.browser.call(method, self._session, **parameters)

    def loaded(self):
        self.browser.wait_for("Page.loadEventFired", self._session)

    def go(self, url):
        answer = self.call("Page.navigate", url=url)
        if answer.get("errorText"):
            raise RuntimeError(f"{url}: {answer['errorText']}")
        self.loaded()

    def evaluate(self, expression):
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def until(self, expression):
        """Waits until it is true in the page; its value."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.02)
        raise TimeoutError(f"never true: {expression}")

    def type(self, selector, text):
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def click(self, selector):
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def screenshot(self, **options):
        return base64.b64decode(self.call("Page.captureScreenshot", **options)["data"])
