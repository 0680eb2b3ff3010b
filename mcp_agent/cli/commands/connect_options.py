"""What the flags of `connect` ask for, and how a client then reaches the daemon."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mcp_agent.cli.clients import own_tokens, reach
from mcp_agent.cli.clients.approval import Approve
from mcp_agent.cli.clients.config_file import ConfigEntry
from mcp_agent.cli.clients.known_clients import Client
from mcp_agent.cli.clients.reach import Http, Reach, Stdio
from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.policy_change import read_registry
from mcp_agent.cli.commands.token import put_into_force
from mcp_agent.config import Config, load
from mcp_agent.security import auth_tokens
from mcp_agent.security.state_folder import secure_state_dir
from registry.catalog import Catalog, discover
from registry.gate import Access, Gate
from registry.profiles import Profiles, default_document
from registry.tools_json import read
from registry.user_error import UsageError

DEFAULT_NAME = "devbox"


class ConnectOptions(Struct, frozen=True):
    """The same for every client. `approve` is None where nobody has said anything of it."""

    config: Config
    name: str
    profile: str | None = None
    url: str | None = None
    ssh: str | None = None
    # What ssh is to start there.
    remote_program: str = "mcp-agent"
    is_stdio: bool = False
    approve: Approve | None = None
    # Whether nothing may be written, a token neither.
    is_dry: bool = False
    is_for_project: bool = False

    @classmethod
    def of_flags(cls, options: Namespace, *, has_ways: bool) -> ConnectOptions:
        """`has_ways`: there are flags that say how the daemon is reached. Raises UserError."""
        wanted = cls(load(vars(options)), options.name, is_dry=options.dry_run, is_for_project=options.project)
        if not has_ways:
            return wanted
        if sum((options.url is not None, options.ssh is not None, options.stdio)) > 1:
            raise UsageError("--url, --ssh and --stdio are three ways to reach a daemon: choose one")
        wanted = replace(wanted, profile=options.profile, url=options.url, ssh=options.ssh)
        wanted = replace(wanted, is_stdio=options.stdio, approve=options.approve)
        if wanted.profile is not None and wanted.is_here:
            # Raises UnknownName for a profile that does not exist.
            wanted.registry()[0][wanted.profile]
        return wanted

    @property
    def is_here(self) -> bool:
        """Whether it is about the daemon of this machine."""
        return self.url is None and self.ssh is None

    def token_name(self, client: str) -> str:
        """The name of the token that is made for a client: another where a person has made one of that name."""
        name = client if self.name == DEFAULT_NAME else f"{client}-{self.name}"
        return own_tokens.free_name(self.config, name)

    def project(self, client: Client) -> Path | None:
        return Path.cwd() if self.is_for_project or client.is_of_project else None

    def place(self, client: Client) -> ConfigEntry:
        return client.place(self.name, self.project(client), self.config.client_backups_dir)

    def reach(self, client: Client) -> Reach:
        """How this client is to reach the daemon; with a token of its own where it needs one. Raises UserError."""
        profile = self.profile or client.profile
        attaches = client.attaches and self.url is None
        how = self._pipe(profile, attaches=attaches, is_shared=self.project(client) is not None)
        return how or self.http(client.id, profile, needs_token=client.secret == "literal")

    def framework_reach(self, name: str, *, needs_token: bool) -> Reach:
        """The same for a framework. Raises UserError."""
        return self._pipe(self.profile) or self.http(name, self.profile, needs_token=needs_token)

    def _pipe(self, profile: str | None, *, attaches: bool = False, is_shared: bool = False) -> Stdio | None:
        """The program that the client starts, where that is how it reaches the daemon."""
        if self.ssh is not None:
            return reach.by_ssh(self.ssh, profile, self.remote_program)
        if self.is_stdio or attaches:
            return reach.local_stdio(self.config, profile, is_shared=is_shared, attaches=not self.is_stdio)
        return None

    def http(self, client: str, profile: str | None, *, needs_token: bool) -> Http:
        config = self.config
        if self.url is not None:
            token = auth_tokens.from_existing_file(config.token_file)
            flags = ("--token-file", str(config.token_file.absolute()))
            return Http(reach.mcp_url(self.url, profile), config.token_file.absolute(), token, flags)
        daemon = daemon_client.find(config)
        scheme = "http" if config.tls_cert is None else "https"
        base = f"{scheme}://{config.host}:{config.port}" if daemon is None else daemon.url
        if self.profile is None and not needs_token:
            path = Path(daemon.token_file) if daemon is not None and daemon.token_file else config.token_file
            if not self.is_dry:
                # Made here if no daemon has run yet: a client that reads the file does not start without it.
                secure_state_dir(config)
                auth_tokens.from_file(path)
            return Http(reach.mcp_url(base, profile), path.absolute(), "", reach.token_flags(path.absolute()))
        # A profile that was asked for is the token's; one that only fits the client narrows its URL.
        name = self.token_name(client)
        path = own_tokens.token_path(config, name).absolute()
        url = reach.mcp_url(base, None if self.profile is not None else profile)
        token = own_tokens.valid_token(config, name, self.profile) or ""
        if not token and self.is_dry:
            token = f"<token of {client}>"
        elif not token:
            token = own_tokens.ensure_token(config, name, self.profile)
            put_into_force(daemon)
        return Http(url, path, token, ("--token-file", str(path)))

    def registry(self) -> tuple[Profiles, Catalog]:
        """The profiles and the tools in force; without a tools.json those that a first start has, and none is written.

        Of a daemon elsewhere nothing is known here: those that every daemon begins with.
        """
        daemon = daemon_client.find(self.config) if self.is_here else None
        if daemon is None and not (self.is_here and self.config.tools_file.exists()):
            return read(default_document(discover()), discover()), discover()
        _, profiles, catalog = read_registry(self.config, daemon)
        return profiles, catalog

    def reading_tools(self, client: Client) -> list[str]:
        """The tools that this client is shown and that only read."""
        profiles, catalog = self.registry()
        profile = self.profile or client.profile
        access = Access(self.profile) if self.profile in profiles.by_id else Access(None, profile)
        return [tool.name for tool in Gate(catalog, profiles).visible(access) if tool.effect == "read"]
