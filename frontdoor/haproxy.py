"""HAProxy's side: its configuration for a start, what its runtime API says, and what to say to it. Pure.

A connection goes to the server that is named after its tenant, and to no other: every server has weight 0, so that none is
ever chosen by balancing, not even when the named one is missing. Servers come and go at run time, without a reload, so
connections to other tenants go on.

    ClientHello ──> name ──> hosts.map ──> tenant ──> limits of the tenant ──> server `planes/<tenant>`
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from frontdoor.routes import Route

PORT: Final = 8443
METRICS_PORT: Final = 8404
BACKEND: Final = "planes"
HELLO_DEADLINE_SECONDS: Final = 5
MOST_OWN_CONNECTIONS: Final = 50  # of probes and scrapers
HARD_STOP_AFTER_SECONDS: Final = 240  # of the pod's 270: until then a pod that ends keeps the connections that it has
_RATE_WINDOW_SECONDS: Final = 10
_MAINTENANCE: Final = 0x01  # of srv_admin_state: forced by the runtime API or the configuration


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one proxy pod; 0 means unlimited."""

    connections: int = 20000
    tenant_connections: int = 5000
    tenant_rate: int = 200  # new ones in a second, as the next
    source_connections: int = 500
    source_rate: int = 25
    threads: int = 2


@dataclass(frozen=True, slots=True)
class Running:
    """The present state of an HAProxy: servers with address and admin state, and host names."""

    servers: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)


def configuration(
    routes: Iterable[Route],
    limits: Limits,
    folder: str,
    *,
    listen: str = "",
    port: int = PORT,
    metrics_port: int = METRICS_PORT,
) -> str:
    """The configuration that HAProxy starts from."""
    servers = "".join(f"  server {route.tenant} {_at(route)} weight 0\n" for route in routes)
    return f"""\
global
  stats socket {folder}/admin.sock mode 600 level admin
  stats timeout 10s
  maxconn {limits.connections + MOST_OWN_CONNECTIONS}
  hard-stop-after {HARD_STOP_AFTER_SECONDS}s
  nbthread {limits.threads}

defaults
  mode tcp
  timeout connect 5s
  timeout client 1m
  timeout server 1m
  timeout client-fin 10s
  timeout server-fin 10s
  timeout tunnel 1h
  option clitcpka
  option srvtcpka
  option dontlognull
  retries 1

frontend tenants-in
  # Fewer than all: clients that use all of these must not block the kubelet's probes, or it would restart the proxy.
  maxconn {limits.connections}
  bind {listen}:{port}
  tcp-request inspect-delay {HELLO_DEADLINE_SECONDS}s
{_source_rules(limits)}\
  # A ClientHello that is malformed, missing, or names no tenant here.
  acl hello req.ssl_hello_type 1
  acl named req.ssl_sni -m found
  tcp-request content track-sc2 str(no-hello) table refusals if !hello
  tcp-request content reject if !hello
  tcp-request content track-sc2 str(no-name) table refusals if !named
  tcp-request content reject if !named
  tcp-request content set-var(sess.tenant) req.ssl_sni,lower,map({folder}/hosts.map)
  acl known var(sess.tenant) -m found
  tcp-request content track-sc2 str(unknown-name) table refusals if !known
  tcp-request content reject if !known
  tcp-request content track-sc1 var(sess.tenant) table tenants
{_tenant_rules(limits)}\
  default_backend {BACKEND}

backend {BACKEND}
  balance roundrobin
  use-server %[var(sess.tenant)] if TRUE
{servers}
backend tenants
  stick-table type string len 64 size 16k expire 5m store gpc0,conn_cur,conn_rate({_RATE_WINDOW_SECONDS}s)

backend sources
  stick-table type ipv6 size 64k expire 1m store conn_cur,conn_rate({_RATE_WINDOW_SECONDS}s)

backend refusals
  stick-table type string len 16 size 16 store conn_cnt

frontend metrics
  mode http
  bind {listen}:{metrics_port}
  maxconn {MOST_OWN_CONNECTIONS}
  timeout client 10s
  monitor-uri /healthz
  http-request use-service prometheus-exporter if {{ path /metrics }}
  http-request return status 404
"""


def hosts_map(routes: Iterable[Route]) -> str:
    """The map from host names to tenants, one entry a line."""
    return "".join(f"{host} {route.tenant}\n" for route in routes for host in route.hosts)


def commands(wanted: Iterable[Route], running: Running, folder: str) -> list[str]:
    """The commands for HAProxy, in order: a server exists before a name leads to it, and is removed after the name."""
    routes = {route.tenant: route for route in wanted}
    hosts = {host: route.tenant for route in routes.values() for host in route.hosts}
    steps: list[str] = []
    for name, route in routes.items():
        steps += _server(name, route, running.servers.get(name))
    for host, tenant in hosts.items():
        if host not in running.hosts:
            steps.append(f"add map {folder}/hosts.map {host} {tenant}")
        elif running.hosts[host] != tenant:
            steps.append(f"set map {folder}/hosts.map {host} {tenant}")
    steps += [f"del map {folder}/hosts.map {host}" for host in running.hosts if host not in hosts]
    for name in running.servers:
        if name not in routes:
            at = f"{BACKEND}/{name}"
            steps += [f"disable server {at}", f"shutdown sessions server {at}", f"del server {at}"]
    return steps


def went_well(command: str, answer: str) -> bool:
    """Whether HAProxy carried out a command; after a success its answer is short."""
    done = {"add server": "registered", "del server": "deleted", "set server": "changed"}
    wanted = next((text for start, text in done.items() if command.startswith(start)), "")
    return wanted in answer if wanted else not answer.strip()


def servers_of(text: str) -> dict[str, tuple[str, int]]:
    """The answer to `show servers state planes`: address with port, and admin state, by name."""
    found = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) > 18 and parts[1] == BACKEND and parts[0].isdigit() and parts[6].isdigit():
            address = f"[{parts[4]}]" if ":" in parts[4] else parts[4]
            found[parts[3]] = (f"{address}:{parts[18]}", int(parts[6]))
    return found


def map_of(text: str) -> dict[str, str]:
    """The answer to `show map`: tenant by name."""
    lines = (line.split() for line in text.splitlines())
    return {parts[1]: parts[2] for parts in lines if len(parts) == 3 and parts[0].startswith("0x")}


def table_of(text: str, counter: str) -> dict[str, int]:
    """The answer to `show table`: one counter of each key."""
    found = {}
    for line in text.splitlines():
        parts = dict(part.split("=", 1) for part in line.split() if "=" in part)
        if "key" in parts and parts.get(counter, "").isdigit():
            found[parts["key"]] = int(parts[counter])
    return found


def _server(name: str, route: Route, there: tuple[str, int] | None) -> list[str]:
    at = f"{BACKEND}/{name}"
    if there is None:
        return [f"add server {at} {_at(route)} weight 0", f"enable server {at}"]
    address, state = there
    steps = [] if address == _at(route) else [f"set server {at} addr {route.target} port {route.port}"]
    return [*steps, f"enable server {at}"] if state & _MAINTENANCE else steps


def _at(route: Route) -> str:
    return f"[{route.target}]:{route.port}" if ":" in route.target else f"{route.target}:{route.port}"


def _source_rules(limits: Limits) -> str:
    rules = ["tcp-request connection track-sc0 src table sources"]
    if limits.source_connections:
        rules.append(f"tcp-request connection reject if {{ sc0_conn_cur gt {limits.source_connections} }}")
    if limits.source_rate:
        rules.append(f"tcp-request connection reject if {{ sc0_conn_rate gt {limits.source_rate * _RATE_WINDOW_SECONDS} }}")
    return "".join(f"  {rule}\n" for rule in rules)


def _tenant_rules(limits: Limits) -> str:
    over = []
    if limits.tenant_connections:
        over.append(f"acl over sc1_conn_cur gt {limits.tenant_connections}")
    if limits.tenant_rate:
        over.append(f"acl over sc1_conn_rate gt {limits.tenant_rate * _RATE_WINDOW_SECONDS}")
    refuse = ["tcp-request content sc-inc-gpc0(1) if over", "tcp-request content reject if over"] if over else []
    return "".join(f"  {rule}\n" for rule in [*over, *refuse])
