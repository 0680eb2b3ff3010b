"""Speaks with a Jupyter kernel for the daemon. The interpreter of a box runs this file, with the packages of that.

It takes one JSON object a line and answers each with one: first whether the kernel is ready, then what each source has
printed and shown. What a kernel prints has no end, so only a part of it is kept here.
"""

from __future__ import annotations

import os
import sys

# The modules beside this file have the names of others'.
sys.path[:] = [each for each in sys.path if each != os.path.dirname(os.path.abspath(__file__))]

import contextlib
import importlib.util
import json
import queue
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

_READY_S = 60.0
_AGAIN_S = 2.0
_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
_MOST_OUTPUTS = 300
# Of one stream half is kept from its beginning and half from its end.
_MOST_STREAM_CHARS = 100_000
_MOST_PART_CHARS = 4_000_000
_MOST_CHARS = 8_000_000


class Outputs:
    """What one cell has printed and shown, as a notebook keeps it."""

    def __init__(self) -> None:
        self._outputs: list[dict[str, Any]] = []
        self._chars = 0
        self._left_out = 0
        self._clears = False

    def take(self, message: dict[str, Any]) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "clear_output":
            self._clears = content["wait"]
            if not self._clears:
                self._clear()
        elif kind == "update_display_data":
            self._update(content)
        elif kind in ("stream", "display_data", "execute_result", "error"):
            if self._clears:
                self._clear()
            self._add(kind, content)

    def finished(self) -> list[dict[str, Any]]:
        found = [_finished(each) for each in self._outputs]
        if self._left_out:
            text = f"[{self._left_out} more outputs are left out]\n"
            found.append({"output_type": "stream", "name": "stderr", "text": text})
        return found

    def _clear(self) -> None:
        self._outputs.clear()
        self._chars = self._left_out = 0
        self._clears = False

    def _add(self, kind: str, content: dict[str, Any]) -> None:
        last = self._outputs[-1] if self._outputs else {}
        if kind == "stream" and last.get("name") == content["name"]:
            _append(last, content["text"])
            return
        if len(self._outputs) >= _MOST_OUTPUTS or self._chars > _MOST_CHARS:
            self._left_out += 1
            return
        output: dict[str, Any] = {"output_type": kind}
        if kind == "stream":
            output.update(name=content["name"], text="", tail="", left_out=0)
            _append(output, content["text"])
            self._chars += _MOST_STREAM_CHARS
        elif kind == "error":
            traceback = "\n".join(content["traceback"])[-_MOST_STREAM_CHARS:]
            value = content["evalue"][:_MOST_STREAM_CHARS]
            output.update(ename=content["ename"], evalue=value, traceback=traceback.split("\n"))
            self._chars += len(traceback) + len(value)
        else:
            output.update(data=self._bounded(content["data"]), metadata=content.get("metadata", {}))
            if kind == "execute_result":
                output["execution_count"] = content["execution_count"]
            output["display_id"] = content.get("transient", {}).get("display_id")
        self._outputs.append(output)

    def _update(self, content: dict[str, Any]) -> None:
        shown = content.get("transient", {}).get("display_id")
        for output in self._outputs:
            if shown is not None and output.get("display_id") == shown:
                self._chars -= sum(map(_size, output["data"].values()))
                output.update(data=self._bounded(content["data"]), metadata=content.get("metadata", {}))

    def _bounded(self, data: dict[str, Any]) -> dict[str, Any]:
        """The forms of one output; those that are too large are named in its text."""
        kept, left_out = {}, []
        for form, value in data.items():
            if (size := _size(value)) > _MOST_PART_CHARS:
                left_out.append(f"[{form} of {size:,} characters is left out]")
            else:
                kept[form] = value
                self._chars += size
        if left_out:
            kept["text/plain"] = "\n".join([*filter(None, [kept.get("text/plain")]), *left_out])
        return kept


class KernelProcess:
    """The process of a kernel, on sockets that are files of this user."""

    def __init__(self, name: str, language: str) -> None:
        """Raises KeyError."""
        self.outputs = Outputs()
        self.name, argv, environment = _command(name, language)
        self._folder = Path(tempfile.mkdtemp(prefix="mcp-agent-kernel-"))
        file = self._file = str(self._folder / "kernel.json")
        ports = {f"{each}_port": number for number, each in enumerate(_CHANNELS, 1)}
        connection = {"transport": "ipc", "ip": str(self._folder / "at"), "signature_scheme": "hmac-sha256", **ports}
        Path(file).write_text(json.dumps({**connection, "key": secrets.token_hex(32)}))
        self._process = subprocess.Popen(
            [each.replace("{connection_file}", file) for each in argv],
            env={**os.environ, **environment, "JPY_PARENT_PID": str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=2,
            start_new_session=True,
        )

    def connect(self) -> BlockingKernelClient:
        """Raises RuntimeError if the kernel is not ready in time."""
        # The kernel starts while this is imported.
        from jupyter_client.blocking.client import BlockingKernelClient

        client = BlockingKernelClient(connection_file=self._file)
        client.load_connection_file()
        client.start_channels(stdin=False, hb=False)
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            client.kernel_info()
            with contextlib.suppress(queue.Empty):
                client.get_shell_msg(timeout=_AGAIN_S)
                # What a cell prints comes on another channel, which is open when the first message has come on it.
                client.get_iopub_msg(timeout=_AGAIN_S)
                return client
        raise RuntimeError(f"it was not ready within {_READY_S:g} s")

    def run(self, client: BlockingKernelClient, source: str) -> dict[str, Any]:
        self.outputs = Outputs()
        reply = client.execute_interactive(source, allow_stdin=False, output_hook=self.outputs.take)
        content = reply["content"]
        count = content.get("execution_count")
        return {"status": content["status"], "execution_count": count, "outputs": self.outputs.finished()}

    def interrupt(self) -> None:
        os.killpg(self._process.pid, signal.SIGINT)

    def wait(self) -> int:
        return self._process.wait()

    def end(self) -> None:
        """What is left of it is ended by the daemon, which knows all processes that came of this one."""
        self._process.terminate()
        shutil.rmtree(self._folder, ignore_errors=True)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    # Whatever else prints here must not come between the answers.
    os.dup2(2, 1)
    missing = [each for each in ("ipykernel", "jupyter_client") if importlib.util.find_spec(each) is None]
    if missing:
        _say(answers, {"missing": missing})
        return
    try:
        kernel = KernelProcess(*sys.argv[1:])
    except KeyError:
        _say(answers, {"unknown": sys.argv[1]})
        return

    def leave(*_: object) -> None:
        kernel.end()
        os._exit(0)

    def watch() -> None:
        code = kernel.wait()
        _say(answers, {"ended": code, "outputs": kernel.outputs.finished()})
        leave()

    sources: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            asked = json.loads(line)
            if "source" in asked:
                sources.put(asked["source"])
            else:
                kernel.interrupt()
        # The daemon wants no more, or is gone.
        leave()

    signal.signal(signal.SIGTERM, leave)
    for each in (watch, listen):
        threading.Thread(target=each, daemon=True).start()
    try:
        client = kernel.connect()
    except RuntimeError as error:
        _say(answers, {"failed": str(error)})
        leave()
    _say(answers, {"ready": kernel.name})
    while True:
        _say(answers, kernel.run(client, sources.get()))


def _say(answers: TextIO, value: dict[str, Any]) -> None:
    answers.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
    answers.flush()


def _command(name: str, language: str) -> tuple[str, list[str], dict[str, str]]:
    """What starts the kernel of that name; for Python also this interpreter's own. Raises KeyError."""
    own = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    environment = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    if sys.prefix != sys.base_prefix:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        environment.update(VIRTUAL_ENV=sys.prefix, PATH=path)
    if name == "python3":
        return name, own, environment
    from jupyter_client.kernelspec import KernelSpecManager

    try:
        spec = KernelSpecManager().get_kernel_spec(name)
    except KeyError:
        if language != "python":
            raise
        return "python3", own, environment
    argv = [each.replace("{resource_dir}", spec.resource_dir) for each in spec.argv]
    return name, argv, {**environment, **spec.env}


def _append(stream: dict[str, Any], text: str) -> None:
    room = _MOST_STREAM_CHARS // 2 - len(stream["text"])
    stream["text"] += text[:room]
    stream["tail"] += text[room:]
    if (over := len(stream["tail"]) - _MOST_STREAM_CHARS) > 0:
        # Not at every line: each cut copies the rest.
        over += _MOST_STREAM_CHARS // 2
        stream["tail"] = stream["tail"][over:]
        stream["left_out"] += over


def _finished(output: dict[str, Any]) -> dict[str, Any]:
    output = {**output}
    output.pop("display_id", None)
    if output["output_type"] == "stream":
        tail, left_out = output.pop("tail"), output.pop("left_out")
        output["text"] += f"\n[{left_out:,} characters are left out]\n{tail}" if left_out else tail
    return output


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value, default=str))


if __name__ == "__main__":
    main()
