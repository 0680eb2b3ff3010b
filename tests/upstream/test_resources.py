"""The resources of mounted servers, for those who have their tools."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mcp_agent.calls.call import Caller
from mcp_agent.resources.mounted_resources import MountedResources
from mcp_agent.resources.resources import CannotBeRead
from mcp_agent.upstream.known_tools import KnownTools
from registry.gate import Access
from registry.mounts import Mount
from tests.support.shell_host import ShellHost
from tests.upstream.mounting import mounted, small
from tools.context import ToolContext
from tools.files.paths import OpenPaths

_OWNER = Caller("owner", Access(), "http")


def resources(host: ShellHost) -> MountedResources:
    return MountedResources(host.daemon.gate, host.daemon.mounts, ToolContext("", OpenPaths(host.folder, ())))


async def test_its_resources_and_templates_are_listed_and_read(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small()}) as host:
        kind = resources(host)
        assert [entry["uri"] for entry in kind.entries(_OWNER)] == ["small://note"]
        assert [entry["uriTemplate"] for entry in kind.templates(_OWNER)] == ["small://number/{number}"]
        for uri in ("small://note", "small://number/7"):
            assert await kind.read(_OWNER, uri) == [{"uri": uri, "mimeType": "text/plain", "text": f"of {uri}"}]
        assert await kind.read(_OWNER, "small://other") is None
        assert await kind.read(_OWNER, "host://tools") is None


async def test_a_link_in_an_answer_can_be_followed(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small()}) as host:
        kind = resources(host)
        assert await kind.read(_OWNER, "small://hidden") is None
        assert (await host.call("link"))["content"][0]["uri"] == "small://hidden"
        contents = await kind.read(_OWNER, "small://hidden")
        assert contents is not None
        assert contents[0]["text"] == "of small://hidden"


async def test_our_schemes_are_ours_whatever_a_server_says(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small("--template", "{anything}")}) as host:
        kind = resources(host)
        assert await kind.read(_OWNER, "elsewhere://x")
        for uri in ("ax://shell/00", "undo://m1", "session://s1", "host://tools/fs_read", "UNDO://m1"):
            assert await kind.read(_OWNER, uri) is None
    async with mounted(tmp_path, {"other": small("--template", "undo://{id}")}) as host:
        assert resources(host).templates(_OWNER) == []


async def test_a_rule_for_paths_holds_for_a_file_however_its_scheme_is_written(tmp_path: Path) -> None:
    rules = {"paths": [{"id": "secrets", "pattern": "keys", "reason": "private"}]}
    async with mounted(tmp_path, {"small": small("--template", "{anything}")}, deny=rules) as host:
        for name in ("file", "FILE"):
            with pytest.raises(CannotBeRead, match="denied by the rule secrets"):
                await resources(host).read(_OWNER, f"{name}://{tmp_path}/keys")


async def test_a_caller_without_its_tools_does_not_see_its_resources(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small()}) as host:
        kind = resources(host)
        narrow = Caller("owner", Access("pruner"), "http")
        assert (kind.entries(narrow), kind.templates(narrow)) == ([], [])
        assert await kind.read(narrow, "small://note") is None


async def test_a_server_that_does_not_answer_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small(timeout_seconds=0.5)}) as host:
        hanging = host.call("hang")
        assert (await hanging)["error"]["code"] == "TIMEOUT"
        gone = "small://note cannot be read: small did not answer resources/read in time"
        with pytest.raises(CannotBeRead, match=gone):
            await resources(host).read(_OWNER, "small://note")


def test_a_long_uri_is_looked_up_in_linear_time(tmp_path: Path) -> None:
    known = KnownTools(tmp_path, Mount("small", command="x"))
    known.learn([], [], [{"uriTemplate": "small://{a}/b/{b}/c/{c}/d"}], [])
    assert known.offers("small://1/b/2/c/3/d")
    assert not known.offers("small://1/c/2/b/3/d")
    assert not known.offers("small://1/b/2/c/d")
    began = time.process_time()
    assert not known.offers("small://" + "/b/c" * 500_000)
    assert not known.offers("small://" + "/b/" * 1_000_000)
    assert time.process_time() - began < 1
