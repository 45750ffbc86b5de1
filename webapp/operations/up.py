"""`trainmaster up`: the whole platform on this machine, on its own PostgreSQL and Valkey unless told otherwise."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from webapp.operations import machine, programs
from webapp.operations.certs import LOCAL_SERVER, ensure_certificates
from webapp.operations.embedded import EmbeddedError, Postgres, Server, Valkey, running, tail
from webapp.operations.programs import ROOT, Program, runnable
from webapp.operations.state_folder import (
    MOST_AGENTS,
    Ports,
    StateFolder,
    StateFolderError,
    write_environment,
)
from webapp.operations.supervisor import LogPrinter, supervise


@dataclass(frozen=True)
class Options:
    agents: int
    slots: int  # 0: the GPUs of this machine
    port: int
    database_url: str
    redis_url: str
    store_url: str
    tls: bool
    quiet: bool
    cold_store_url: str = ""


@click.command()
@click.option(
    "--agents", type=click.IntRange(0, MOST_AGENTS),
    help="Nodes to start; by default one with the GPUs of this machine, or four with CPU slots without GPUs.",
)  # fmt: skip
@click.option(
    "--slots", type=click.IntRange(1, 64),
    help="CPU slots of each node; by default the GPUs of this machine, or two without GPUs or with several nodes.",
)  # fmt: skip
@click.option("--dir", "folder", default="var", show_default=True, type=Path, help="Folder of all state.")
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65535),
    help="Port of the web server; by default that of the last start, or 8000.",
)
@click.option(
    "--database-url",
    envvar="DATABASE_URL",
    default="",
    help="Use this PostgreSQL instead of the embedded one.  [env: DATABASE_URL]",
)
@click.option(
    "--redis-url",
    envvar="REDIS_URL",
    default="",
    help="Use this Valkey or Redis instead of the embedded one.  [env: REDIS_URL]",
)
@click.option(
    "--store-url", envvar="TRAINMASTER_STORE_URL", default="",
    help="Store all files here, such as s3://BUCKET/PREFIX, not in DIR/store.  [env: TRAINMASTER_STORE_URL]",
)  # fmt: skip
@click.option(
    "--cold-store-url", envvar="TRAINMASTER_COLD_STORE_URL", default="",
    help="Move here what nobody has used for long.  [env: TRAINMASTER_COLD_STORE_URL]",
)  # fmt: skip
@click.option(
    "--tls", is_flag=True, help="Use TLS between agents and gateway, with certificates made in DIR."
)
@click.option("--quiet", is_flag=True, help="Write log lines to files only, not to the terminal.")
def up(folder: Path, agents: int | None, slots: int | None, **options: object) -> None:
    """Start the whole platform on this machine and stay until Ctrl-C.

    A restart in the same folder continues with its state; training processes that still run are adopted.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        nodes = machine.nodes(agents, slots, machine.gpus())
        sys.exit(run(StateFolder(folder.absolute()), Options(nodes.agents, nodes.slots, **options)))  # type: ignore[arg-type]
    except (StateFolderError, EmbeddedError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(0)


def run(folder: StateFolder, options: Options) -> int:
    folder.claim()
    leftovers = folder.stop_leftovers()
    if leftovers:
        click.echo(f"Stopped what the last start left running: {', '.join(leftovers)}")
    ports = folder.ports(options.agents, options.port)
    secrets = folder.secrets()
    with databases(folder, ports, secrets, options) as (urls, pid_files):
        environment = shared_environment(folder, ports, secrets, options) | urls | encryption(folder, options)
        write_environment(folder.path / "platform.env", environment)
        with ThreadPoolExecutor() as together:
            assets = together.submit(manage, folder, programs.COLLECT, environment)
            prepare_database(folder, environment, secrets)
            assets.result()
        printer = LogPrinter(folder.logs, options.quiet, announcer="watch")
        platform = plan(folder, ports, options, secrets, pid_files)
        ended = supervise(platform, environment, folder.run, printer)
    if ended is None:
        click.echo("Trainmaster has stopped.")
        return 0
    name, code = ended
    log = folder.logs / f"{name}.log"
    click.echo(
        f"{name} ended with code {code}, so everything was stopped. The end of {log}:\n{tail(log)}", err=True
    )
    return 1


@contextmanager
def databases(
    folder: StateFolder, ports: Ports, secrets: dict[str, str], options: Options
) -> Iterator[tuple[dict[str, str], list[Path]]]:
    """Starts those that were not given from outside; gives the addresses and who to watch."""
    urls = {"DATABASE_URL": options.database_url, "REDIS_URL": options.redis_url}
    servers: dict[str, Server] = {}
    if not options.database_url:
        servers["DATABASE_URL"] = Postgres(
            folder.path / "postgres",
            ports.postgres,
            secrets["POSTGRES_PASSWORD"],
            folder.logs / "postgres.log",
        )
    if not options.redis_url:
        servers["REDIS_URL"] = Valkey(
            folder.path / "valkey", ports.valkey, secrets["VALKEY_PASSWORD"], folder.logs / "valkey.log"
        )
    with running(*servers.values(), report=click.echo):
        yield (
            urls | {name: server.url for name, server in servers.items()},
            [server.pid_file for server in servers.values()],
        )


def shared_environment(
    folder: StateFolder, ports: Ports, secrets: dict[str, str], options: Options
) -> dict[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
        "PYTHONUNBUFFERED": "1",  # lines appear when they are written
        **{name: value for name, value in secrets.items() if name.startswith("TRAINMASTER_")},
        "TRAINMASTER_PUBLIC_URL": f"http://127.0.0.1:{ports.web}",
        "TRAINMASTER_ROUTER_URL": f"http://127.0.0.1:{ports.router}",
        "TRAINMASTER_ROUTER_GRPC_LISTEN": f"127.0.0.1:{ports.router_grpc}",
        "TRAINMASTER_STORE_URL": options.store_url or folder.store.absolute().as_uri(),
        "TRAINMASTER_COLD_STORE_URL": options.cold_store_url,
        "TRAINMASTER_STATIC_ROOT": str(folder.path / "static"),
        "TRAINMASTER_GATEWAY_LISTEN": f"127.0.0.1:{ports.gateway}",
    }


def encryption(folder: StateFolder, options: Options) -> dict[str, str]:
    if not options.tls:
        return {"TRAINMASTER_GATEWAY_TLS": "0"}  # nothing leaves this machine
    ensure_certificates(folder.certificates, tuple(node_name(number) for number in range(options.agents)))
    return {
        "TRAINMASTER_GATEWAY_TLS": "1",
        "TRAINMASTER_GATEWAY_CERTIFICATE": str(folder.certificates / f"{LOCAL_SERVER}.crt"),
        "TRAINMASTER_GATEWAY_KEY": str(folder.certificates / f"{LOCAL_SERVER}.key"),
    }


def node_name(number: int) -> str:
    return f"node-{number + 1}"


def prepare_database(folder: StateFolder, environment: dict[str, str], secrets: dict[str, str]) -> None:
    """Brings the tables up to date; the first time also makes the operator's account."""
    manage(folder, programs.MIGRATE, environment)
    marker = folder.path / "admin.created"
    if not marker.exists():
        account = {"USERNAME": "admin", "EMAIL": "admin@localhost", "PASSWORD": secrets["ADMIN_PASSWORD"]}
        names = {f"DJANGO_SUPERUSER_{name}": value for name, value in account.items()}
        # A database from outside may know an admin already; then that one stays as it is.
        manage(folder, programs.CREATE_ADMIN, environment | names, unless="already taken")
        marker.touch()


def manage(
    folder: StateFolder, command: tuple[str, ...], environment: dict[str, str], unless: str = ""
) -> None:
    log = folder.logs / f"{command[2]}.log"
    done = subprocess.run(
        runnable(command), env=os.environ | environment, cwd=ROOT, text=True, capture_output=True
    )
    output = done.stdout + done.stderr
    with log.open("a") as file:
        file.write(output)
    if done.returncode and not (unless and unless in output):
        raise StateFolderError(f"`{' '.join(command)}` failed. The end of {log}:\n{tail(log)}")


def plan(
    folder: StateFolder, ports: Ports, options: Options, secrets: dict[str, str], databases: list[Path]
) -> list[Program]:
    ready = folder.run / "ready"
    ready.unlink(missing_ok=True)
    watch = (
        *("python", str(Path(__file__).with_name("watch.py"))),
        *("--url", f"http://127.0.0.1:{ports.web}", "--gateway-port", str(ports.gateway)),
        *("--ready-file", str(ready)),
        *("--hint", f"Log in as admin with the ADMIN_PASSWORD in {folder.path / 'secrets.env'}."),
        *map(str, databases),
    )
    schedule = ("--schedule", str(folder.run / "beat-schedule"))
    return [
        Program("web", (*programs.WEB, "--host", "127.0.0.1", "--port", str(ports.web))),
        Program("router", (*programs.ROUTER, "--host", "127.0.0.1", "--port", str(ports.router))),
        Program("scheduler", programs.SCHEDULER),
        Program("coordinator", programs.COORDINATOR),
        Program("worker", programs.WORKER),
        Program("beat", (*programs.BEAT, *schedule)),
        Program("gateway", programs.GATEWAY),
        *(agent(folder, ports, options, secrets, number) for number in range(options.agents)),
        Program("watch", watch),
    ]


def agent(
    folder: StateFolder, ports: Ports, options: Options, secrets: dict[str, str], number: int
) -> Program:
    """Nodes that share a machine: each with a name, a folder and ports of its own; two make a rack."""
    name = node_name(number)
    low, high = ports.rendezvous[number]
    settings = {
        "SERVER": f"127.0.0.1:{ports.gateway}",
        "TOKEN": secrets["TRAINMASTER_BOOTSTRAP_TOKEN"],
        "DATA": str(folder.path / "agents" / name),
        "HOSTNAME": name,
        "RACK": f"rack-{number // 2 + 1}",
        "SLOTS": str(options.slots),
        "HOOKS": str(folder.hooks),
        "ADDRESS": "127.0.0.1",
        "TRANSFER_PORT": str(ports.transfer[number]),
        "RENDEZVOUS_PORTS": f"{low}-{high}",
        "CACHE_HIGH": "100",  # the disk is full of other things than models; room is made for what is coming only
        "CACHE_LOW": "100",
    }
    if options.tls:
        own = folder.certificates / f"node-{name}"
        settings |= {
            "CA": str(folder.certificates / "ca.crt"),
            "CERTIFICATE": f"{own}.crt",
            "KEY": f"{own}.key",
        }
    else:
        settings["INSECURE"] = "1"
    return Program(
        name, programs.AGENT, {f"TRAINMASTER_AGENT_{key}": value for key, value in settings.items()}
    )
