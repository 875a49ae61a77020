"""Credentials from an `exec` entry of the admin's own kubeconfig, as clouds use them (client-go credential plugins).

Only the command line runs plugins, and only from the kubeconfig of the user who calls it, which kubectl would trust as well.
The library's `KubeConfig` refuses `exec`, and a tenant's kubeconfig is never passed to this module.

    kubeconfig ──> exec of the chosen user ──> run it ──> ExecCredential ──> the same kubeconfig with a token or certificate
"""

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bulkhead.api.untrusted import mapping, mappings, text
from workstation.cli import interruption
from workstation.cli.failures import CliError

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_SECONDS = 120.0  # the user may have to log in
_END_SECONDS = 1.0
_ANSWER_BYTES = 1 << 20
_SIGN_IN = "sign in with it, until `kubectl get nodes` answers; or give a kubeconfig with a token or certificate"


def resolve(data: bytes, folder: Path, context: str | None, *, within: float | None = None) -> bytes:
    """The kubeconfig with the chosen user's `exec` replaced by the credential that it returns; unchanged if there is no `exec`.

    If `within` is given, the plugin has so many seconds to answer, and cannot ask the user anything.
    """
    found = ask(data, folder, context, within=within)
    return data if found is None else found.data


@dataclass(frozen=True, slots=True)
class Answered:
    """A kubeconfig with a plugin's credential, and when that ends as far as the plugin says."""

    data: bytes
    ends: datetime | None


def ask(data: bytes, folder: Path, context: str | None, *, within: float | None = None) -> Answered | None:
    """What `resolve` returns, and its end; None for a kubeconfig whose chosen user has no `exec`."""
    call = _call(data, folder, context, interactive=within is None and sys.stdin.isatty())
    if call is None:
        return None
    seconds = _SECONDS if within is None else within
    with _failures(call, seconds):
        return call.answered(_output(call, seconds, quiet=within is not None))


def _output(call: "_Call", seconds: float, *, quiet: bool) -> bytes:
    """What the plugin writes. Ctrl-C raises KeyboardInterrupt, and neither it nor the deadline leaves the plugin behind."""
    unheard = subprocess.DEVNULL if quiet else None  # None is the user's: plugins write their prompts there
    with (
        interruption.at_once(),
        subprocess.Popen(call.words, env=call.environment, stdin=unheard, stdout=subprocess.PIPE, stderr=unheard) as process,
    ):
        try:
            output, _ = process.communicate(timeout=seconds)
        except BaseException:
            _end_process(process)
            raise
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, call.words)
    return output


def _end_process(process: "subprocess.Popen[bytes]") -> None:
    """End a plugin; what is deaf to that has a second. What it has started shares our terminal, and hears Ctrl-C there."""
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()  # nothing, if it has ended
        process.wait()


async def ask_quietly(data: bytes, folder: Path, context: str | None, *, within: float) -> Answered | None:
    """The same for a plugin that cannot ask the user anything. A cancelled call leaves no process behind."""
    call = await asyncio.to_thread(_call, data, folder, context, interactive=False)
    if call is None:
        return None
    with _failures(call, within):
        # A group of its own: Ctrl-C does not reach it then, and whatever the plugin has started is ended with it.
        process = await asyncio.create_subprocess_exec(
            *call.words,
            env=call.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            limit=_ANSWER_BYTES,
            process_group=0,
        )
        try:
            async with asyncio.timeout(within):
                answer = await _read(process.stdout) if process.stdout else b""
                code = await process.wait()
        except BaseException:
            await _end_group(process)
            raise
        if code != 0:
            raise subprocess.CalledProcessError(code, call.words)
        return call.answered(answer)


async def _read(stream: asyncio.StreamReader) -> bytes:
    answer = b""
    while piece := await stream.read(_ANSWER_BYTES):
        answer += piece
        if len(answer) > _ANSWER_BYTES:
            raise ValueError(f"more than {_ANSWER_BYTES} bytes")
    return answer


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """End a plugin and what it has started; what is deaf to that has a second."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()


@dataclass(frozen=True, slots=True)
class _Call:
    """A plugin to be run, and the kubeconfig whose user asks it."""

    command: str
    words: tuple[str, ...]
    environment: dict[str, str]
    install_hint: str
    document: Any
    user: dict[str, Any]

    def answered(self, output: bytes) -> Answered:
        """The kubeconfig with the credential that the plugin has written."""
        import yaml  # noqa: PLC0415 - slow to load

        status = dict(mapping(json.loads(output)["status"]))
        self.user["user"] = _credentials(status, self.command)
        return Answered(yaml.safe_dump(self.document).encode(), _end(status.get("expirationTimestamp")))


def _call(data: bytes, folder: Path, context: str | None, *, interactive: bool) -> _Call | None:
    if b"exec" not in data:
        return None
    import yaml  # noqa: PLC0415 - slow to load

    try:
        document = yaml.safe_load(data)
        scope = _entry(document, "contexts", context or document["current-context"])["context"]
        user = _entry(document, "users", scope["user"])
        cluster = _entry(document, "clusters", scope["cluster"])["cluster"]
        plugin = user["user"].get("exec")
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError):
        return None  # broken in another way, which KubeConfig explains better
    if not isinstance(plugin, dict):
        return None
    command, version = str(plugin.get("command") or ""), plugin.get("apiVersion")
    if version not in _VERSIONS:
        raise CliError(f"kubeconfig: exec {command!r}: apiVersion must be one of {', '.join(_VERSIONS)}, not {version!r}")
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {key: value for key, value in cluster.items() if key in {"server", "certificate-authority-data"}}
    info = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": spec})
    # A command with a slash is relative to the kubeconfig; a bare name is looked up on PATH.
    program = str(folder / command) if os.sep in command else command
    # As kubectl reads them: a variable without a value is empty.
    given = ((text(item.get("name")), item.get("value")) for item in mappings(plugin.get("env")))
    extra = {name: "" if value is None else str(value) for name, value in given if name}
    return _Call(
        command,
        (program, *map(str, plugin.get("args") or ())),
        dict(os.environ) | extra | {"KUBERNETES_EXEC_INFO": info},
        str(plugin.get("installHint") or ""),
        document,
        user,
    )


def _end(stamp: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _entry(document: Any, section: str, name: str) -> Any:
    for item in document[section]:
        if item["name"] == name:
            return item
    raise LookupError(name)


@contextlib.contextmanager
def _failures(call: _Call, within: float) -> Iterator[None]:
    """What goes wrong with a plugin, as the errors that the user reads."""
    command = call.command
    try:
        yield
    except FileNotFoundError as error:
        hint = call.install_hint.strip() or "install it, or give a kubeconfig with a token or certificate"
        raise CliError(f"kubeconfig: exec {command!r} is not installed", next_step=hint.splitlines()[0]) from error
    except (subprocess.TimeoutExpired, TimeoutError) as error:
        raise CliError(f"kubeconfig: exec {command!r} gave no credentials within {within:g} s", next_step=_SIGN_IN) from error
    except subprocess.CalledProcessError as error:
        raise CliError(f"kubeconfig: exec {command!r} failed with exit code {error.returncode}", next_step=_SIGN_IN) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CliError(f"kubeconfig: exec {command!r} gave no ExecCredential: {error}") from error


def _credentials(status: dict[str, Any], command: str) -> dict[str, str]:
    """The user entry that contains the plugin's credential."""
    user: dict[str, str] = {}
    if status.get("token"):
        user["token"] = str(status["token"])
    if status.get("clientCertificateData") and status.get("clientKeyData"):
        user["client-certificate-data"] = base64.b64encode(str(status["clientCertificateData"]).encode()).decode()
        user["client-key-data"] = base64.b64encode(str(status["clientKeyData"]).encode()).decode()
    if not user:
        raise CliError(f"kubeconfig: exec {command!r} gave neither a token nor a certificate")
    return user
