"""Servers and load generators that are not ours, as a study has them: a command, or the URL of a server."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.outputs.parsers import PARSERS
from thunderherd.engine.places.programs import Program
from thunderherd.errors import Problem, UserError
from thunderherd.hosts.addresses import THIS, HostAddress
from thunderherd.labs import KINDS, USUAL
from thunderherd.records.cache import kept_folder
from thunderherd.study.checks.load_commands import CHECK, COUNT
from thunderherd.study.file.contenders import Configuration
from thunderherd.study.file.names import bundled_studies
from thunderherd.study.file.placeholders import BUILD, DIR, PORT, WORKLOAD, filled, template_name
from thunderherd.study.file.tables import ContenderTable, LoadTable
from thunderherd.study.file.urls import ServerUrl, server_url, without_user
from thunderherd.study.resolved import Contender, OwnProgram, Study
from thunderherd.toml.file import KeyPath, Problems, show

KEYS = ("command", "url")
"""The keys that name a server that is not ours."""
OF_COMMANDS = ("directory", "environment", "ready_line", "build", "version", "install")
OF_LOAD_GENERATORS = tuple(key for key in OF_COMMANDS if key != "ready_line")
OF_DESIGNS = ("primitive", "receive", "settings")
"""The keys of a contender that only our servers have."""

CACHED = {"__pycache__", ".git"}
"""Folders that programs write beside a server's sources."""
RUN_FILE = "run.json"
"""The file that a folder of results has."""
MOST_FILES, LARGEST_SOURCE = 1000, 1_000_000
"""The most files of a server's sources, and the most bytes of one, whose content decides on a new build.
Of others it is their size and the time of their last change."""

URL = re.compile(r"([a-z][a-z0-9_]*)://")
ADDRESS = re.compile(r"[\w.:\[\]-]*:\d+(/.*)?", re.ASCII)
"""The address of a server without a scheme before it."""
OF_SHELLS = {"&&", "||", "|", ";", "&", ">", ">>", "<"}
"""Words that only a shell reads."""
WEB_PORT = 80
PATH = "path"
"""The setting of a load that follows from a URL."""


def check_owner(study: Study) -> None:
    """Raise `UserError` if a study that is not this user's would run commands, or measure on hosts.

    Hosts that the user has typed are the user's.
    """
    named = [
        (each.base, program.command)
        for each in study.contenders
        for program in (each.own_server, each.load.generator)
        if program is not None and program.command
    ]
    # A value may be typed without quotes.
    typed = [(each, each.partition("=")[2]) for each in study.overrides]
    hosts = [
        host for host in study.hosts if not any(show(host) in each or host == value for each, value in typed)
    ]
    if not (named or hosts) or study.path in bundled_studies().values():
        return
    path = study.path.absolute()
    if {path.stat().st_uid, path.parent.stat().st_uid} == {os.geteuid()}:
        return
    if named:
        base, command = named[0][0], shlex.join(named[0][1])
        what, code = f"{base} runs a command, {command},", "run.commands_not_allowed"
    else:
        what, code = f"{study.name} measures on {' and '.join(hosts)},", "run.hosts_not_allowed"
    raise UserError(
        f"{what} from a study in another user's folder",
        code=code,
        hint="read the study; then give --allow-commands",
        where=str(study.path),
    )


def check_commands(study: Study) -> None:
    """Raise `UserError` if a study would run a command on another host."""
    for each in study.contenders:
        for _, host, program in each.programs:
            if host.kind != THIS:
                raise UserError(
                    f"{each.base} would run a command on {host}: {shlex.join(program.command)}",
                    code="hosts.commands_not_allowed",
                    hint="read it; then give --allow-commands",
                    where=study.name,
                )


def allowed_programs(contenders: Iterable[Contender]) -> Iterator[tuple[HostAddress, Program]]:
    """Yield the programs and version commands of contenders that agents may start, each with its host."""
    for each in contenders:
        for _, host, program in each.programs:
            known = each.load.placeholders
            command = tuple(filled(word, known) for word in program.command)
            variables = {name: filled(value, known) for name, value in program.environment.items()}
            yield host, Program(command, program.directory, frozenset(variables.items()))
            if program.version:
                yield (
                    host,
                    Program(program.version, program.directory, frozenset(program.environment.items())),
                )


def lacking_on_host(program: OwnProgram, name: str) -> Iterator[Problem]:
    """Yield what this machine, a host, lacks of a contender's program."""
    if program.directory is not None and not program.directory.is_dir():
        hint = "make it there, or give a directory that is there"
        yield Problem(f"no folder {program.directory}, where {name} runs", "study.no_directory", hint)
    # A program with a build is on this machine. The build may make its command.
    for words in (program.build,) if program.build else (program.command, program.version):
        if words and shutil.which(words[0]) is None:
            hint = program.install or "install it there, or give its path there"
            yield Problem(f"no program {words[0]}, which {name} needs", "study.no_program", hint)


def has_own_server(table: ContenderTable) -> bool:
    """True if a contender's server is not ours."""
    return table.command is not None or table.url is not None


def is_command(typed: str) -> bool:
    """True if a word of the command line is the command of a server: it has {port}, a space, or a path."""
    return PORT in typed or " " in typed.strip() or ("/" in typed and not URL.match(typed))


def url_meant(typed: str) -> str | None:
    """Return a hint for an address that was typed without the scheme of a URL; None for other words."""
    return f"a URL begins with its workload, such as http://{typed}" if ADDRESS.fullmatch(typed) else None


def program_meant(words: Sequence[str], directory: Path) -> str:
    """Return a hint for a command, run in `directory`, whose program is not found."""
    name = words[0] if words else ""
    if hint := url_meant(name):
        return hint
    if " " in name.strip():
        return "put each word of the command into quotes of its own"
    if OF_SHELLS & {*words}:
        return "no shell reads a command; write a script, or sh -c '...'"
    if "=" in name:
        return f"only a shell reads variables there; give env {' '.join(words)}"
    path = directory / name
    if "/" in name and path.is_file():
        return f"it is no program yet; type chmod +x {path}"
    return f"give its path: ./{name}" if path.is_file() else "install it, or give its path"


def command_words(typed: str, area: str, where: str) -> tuple[str, ...]:
    """Split a command into words, as a shell does; raise `UserError` with a code of `area` if it cannot."""
    try:
        return tuple(shlex.split(typed))
    except ValueError as error:
        hint = "quote its words as a shell does"
        message = f"{show(typed)} is not a command: {error}"
        raise UserError(message, code=f"{area}.invalid_command", hint=hint, where=where) from None


def check_own_server(each: Configuration, catalogue: Catalogue, folder: Path, problems: Problems) -> None:
    """Check the keys of a contender whose server is not ours, and that nothing else names its server."""
    table = each.table
    named = [key for key in ("design", *KEYS) if getattr(table, key) is not None]
    if len(named) > 1:
        problems.add(
            each.where(named[-1]),
            f"contender {show(table.name)} has {' and '.join(named)}",
            code="study.two_servers",
            hint=f"leave {named[0]} or {named[-1]} out",
        )
        return
    if table.command is None and not problems.has_settled(each.base.place, "command"):
        for key in OF_COMMANDS:
            if getattr(table, key):
                message = f"contender {show(table.name)} has {key} without a command"
                problems.add(each.where(key), message, code="study.no_command", hint=f"leave {key} out")
    if not has_own_server(table):
        return
    for key in OF_DESIGNS:
        if key in table.model_fields_set and (given := getattr(table, key)):
            problems.add(
                each.where(key, *(list(given)[:1] if isinstance(given, dict) else ())),
                f"{key} applies to designs only",
                code="study.key_of_designs",
                hint=f"leave {key} out" + ("; put it into the command" if table.command else ""),
            )
    if each.trial == "whole_life":
        problems.add(
            each.where("trial"),
            'trial = "whole_life" works with designs only',
            code="study.whole_life_of_foreign",
            hint='give trial = "window"',
        )
    for key, problem in _problems_of(each, catalogue):
        problems.add(each.where(key), problem)
    for place, problem in _missing_templates(each, folder):
        problems.add(each.where(*place), problem)


def check_load_generator(each: Configuration, problems: Problems) -> None:
    """Check the keys of a load generator that is not ours."""
    table, kind = each.load, KINDS.get(each.lab.kind)
    if table.command is None:
        tables = ((*each.base.place, "load"), ("load",))
        is_known = any(problems.has_settled(place, "command") for place in tables)
        for key in () if is_known else ("parser", *OF_LOAD_GENERATORS):
            if getattr(table, key):
                message = f"the load has {key} without a command"
                problems.add(
                    each.where("load", key), message, code="study.no_command", hint=f"leave {key} out"
                )
        return
    where = each.where("load", "command")
    if not table.command or not table.command[0].strip():
        problems.add(where, "the command is empty", code="study.empty_command", hint='such as ["wrk"]')
    if table.parser not in PARSERS:
        given = "no parser" if table.parser is None else f"no parser {show(table.parser)}"
        place = where if table.parser is None else each.where("load", "parser")
        hint = f"give load.parser: {', '.join(PARSERS)}"
        problems.add(place, f"{given} for a load's command", code="study.unknown_parser", hint=hint)
    if each.trial == "whole_life":
        problems.add(
            each.where("trial"),
            'trial = "whole_life" works with our clients only',
            code="study.whole_life_of_foreign",
            hint='give trial = "window"',
        )
    if kind is not None and not kind.has_tcp:
        message = f"lab {show(kind.name)} has no TCP, which a load's command needs"
        hint = f"labs with TCP: {', '.join(other.name for other in KINDS.values() if other.has_tcp)}"
        problems.add(where, message, code="study.needs_tcp", hint=hint)


def _problems_of(each: Configuration, catalogue: Catalogue) -> Iterator[tuple[str, Problem]]:
    table, kind = each.table, KINDS.get(each.lab.kind)
    if kind is not None and not kind.has_tcp:
        hint = f"labs with TCP: {', '.join(other.name for other in KINDS.values() if other.has_tcp)}"
        message = f"lab {show(kind.name)} has no TCP, which a command or URL needs"
        yield KEYS[table.url is not None], Problem(message, "study.needs_tcp", hint)
    if table.command is not None:
        if not table.command or not table.command[0].strip():
            yield "command", Problem("the command is empty", "study.empty_command", 'such as ["./server"]')
        return
    url = table.url or ""
    if kind is not None and kind.has_namespaces:
        message = f"a running server is not in lab {show(kind.name)}, whose namespaces are made for the run"
        yield (
            "url",
            Problem(message, "study.url_outside_lab", f"give a command, or lab.kind = {show(USUAL.name)}"),
        )
    if problem := url_problem(url, each.workload, catalogue, "study"):
        yield "url", problem


def _missing_templates(each: Configuration, folder: Path) -> Iterator[tuple[tuple[str, ...], Problem]]:
    """Yield each file that a word `{dir}/NAME` copies and that the directory lacks. A build may make it."""
    table = each.table
    directory = folder / table.directory if table.directory else folder
    if table.build or not table.command or not directory.is_dir():
        return
    words: list[tuple[tuple[str, ...], str]] = [(("command",), word) for word in table.command]
    words += [(("environment", name), value) for name, value in table.environment.items()]
    for place, word in words:
        name = template_name(filled(word, {WORKLOAD: each.workload}))
        if name is not None and not (directory / name).is_file():
            message = f"no file {name} in {directory}, which {DIR}/{name} copies"
            hint = f"create it; write {DIR}/./{name} for a file that the server makes"
            yield place, Problem(message, "study.no_template", hint)


def url_problem(url: str, workload: str | None, catalogue: Catalogue, area: str) -> Problem | None:
    """Return what is wrong with the URL of a server of a workload (None: any); None if it is right."""
    parts, schemes = server_url(url), [f"{each.name}://" for each in catalogue.workloads]
    shown = without_user(url)
    if parts is not None and parts.scheme == "https":
        hint = "give the http:// port of the server, or of a proxy that ends TLS, such as nginx"
        return Problem(f"{shown}: TLS is not supported yet", f"{area}.no_tls", hint)
    if parts is None:
        message = f"{show(shown)} is not the URL of a server"
        scheme = URL.match(url)
        such = f"such as {scheme[1]}://127.0.0.1:8080/" if scheme else "such as WORKLOAD://HOST:PORT/"
        return Problem(message, f"{area}.invalid_url", such)
    if f"{parts.scheme}://" not in schemes:
        message = f"{url}: no workload has the scheme {parts.scheme}"
        return Problem(message, f"{area}.unknown_scheme", f"allowed: {', '.join(schemes)}")
    if workload not in (None, parts.scheme):
        message = f"{url} has scheme {parts.scheme}, but the workload is {workload}"
        return Problem(message, f"{area}.other_scheme", f"give workload {parts.scheme}, or another URL")
    path = parts.path.partition("?")[0]
    if path.strip("/") and not has_paths(parts.scheme, catalogue):
        message = f"workload {parts.scheme} has no paths, but {url} has one"
        return Problem(message, f"{area}.path_not_allowed", f"leave {path} out")
    return None


def address_of(url: ServerUrl, catalogue: Catalogue) -> str:
    """Return the address of a running server; its port is that of its workload if the URL has none."""
    workload = catalogue.workload(url.scheme)
    return url.address(workload.port if workload and not has_paths(url.scheme, catalogue) else WEB_PORT)


def own_server_of(each: Configuration, catalogue: Catalogue, folder: Path) -> OwnProgram | None:
    """Return a contender's server that is not ours; None if it is ours. `folder` is that of the study."""
    table = each.table
    if table.url is not None and (parts := server_url(table.url)):
        return OwnProgram(url=table.url, address=address_of(parts, catalogue))
    if table.command:
        own = {"ready_line": table.ready_line, "install": table.install or each.load.install}
        return _of_command(table, each.workload, folder).model_copy(update=own)
    return None


def load_generator_of(each: Configuration, folder: Path) -> OwnProgram | None:
    """Return a contender's load generator that is not ours; None if our clients are its load."""
    if not each.load.command:
        return None
    install = each.load.install or each.table.install
    return _of_command(each.load, each.workload, folder).model_copy(update={"install": install})


def _of_command(table: ContenderTable | LoadTable, workload: str, folder: Path) -> OwnProgram:
    directory = folder / table.directory if table.directory else folder
    values = {WORKLOAD: workload}
    if table.build:
        values[BUILD] = str(_build_folder(table.build, directory))
    words = [_filled(key or (), values) for key in (table.command, table.build, table.version)]
    command, build, version = (tuple(_program(each, directory)) for each in words)
    return OwnProgram(
        command=command,
        directory=directory.absolute(),
        environment=table.environment,
        build=build,
        built=Path(values[BUILD]) if table.build else None,
        version=version,
    )


def load_settings(each: Configuration) -> dict[str, Any]:
    """Return the settings of the clients that follow from a server that is not ours."""
    table = each.table
    if not has_own_server(table):
        return {}
    parts = server_url(table.url or "")
    path = parts.path if parts else "/"
    return {CHECK: COUNT, **({PATH: path} if table.url else {})}


def missing_programs(each: Configuration, folder: Path) -> Iterator[tuple[KeyPath, Problem]]:
    """Yield why a command of the server or the load cannot be started on this machine, with its key."""
    name = each.table.name
    install = each.table.install or each.load.install
    for table, place in ((each.table, ()), (each.load, ("load",))):
        if found := _missing_program(table, name, folder, table.install or install):
            key, problem = found
            yield each.where(*place, key), problem


def _missing_program(
    table: ContenderTable | LoadTable, name: str, folder: Path, install: str | None
) -> tuple[str, Problem] | None:
    """Return the key of what is missing, and the problem."""
    command = table.build or table.command
    if not table.command or not command or not command[0].strip():
        return None
    directory = folder / table.directory if table.directory else folder
    if not directory.is_dir():
        problem = Problem(f"no folder {directory}", "study.no_directory", "give a folder that exists")
        return "directory" if table.directory else "command", problem
    # A command may be a file that starts a program. `version` then names the program. A build may make it.
    needed = {"build" if table.build else "command": command[0]}
    if table.version and not table.build:
        needed["version"] = table.version[0]
    for key, program in needed.items():
        if shutil.which(_program([program], directory)[0]) is None:
            needed_by = "" if name == program else f", which {show(name)} needs"
            message = f"no program {show(program)}{needed_by}"
            hint = install or program_meant(getattr(table, key), directory)
            return key, Problem(message, "study.no_program", hint)
    return None


def _filled(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return words with the placeholders filled in that are the same for all trials."""
    return [filled(word, values) for word in words]


def _build_folder(build: Sequence[str], directory: Path) -> Path:
    """Return the folder for what a command builds from the files of a directory, in the user's cache."""
    digest = hashlib.sha256(repr(list(build)).encode())
    for number, path in enumerate(_sources(directory)):
        known = path.stat()
        digest.update(f"{path.relative_to(directory)}\n{known.st_size}\n".encode())
        if number < MOST_FILES and known.st_size <= LARGEST_SOURCE:
            digest.update(path.read_bytes())
        else:
            digest.update(f"{known.st_mtime_ns}\n".encode())
    return kept_folder() / "servers" / f"{directory.absolute().name}-{digest.hexdigest()[:16]}"


def _sources(directory: Path) -> list[Path]:
    """Return the files of a directory in order, without caches and the results of earlier runs."""
    found = [path for path in sorted(directory.rglob("*")) if path.is_file() and not CACHED & {*path.parts}]
    runs = {path.parent for path in found if path.name == RUN_FILE} - {directory}
    return [path for path in found if runs.isdisjoint(path.parents)]


def _program(command: Sequence[str], directory: Path) -> list[str]:
    """Return a command with the path of its program from the folder that it runs in."""
    if not command:
        return []
    name, *rest = command
    return [str((directory / name).absolute()) if "/" in name else name, *rest]


def has_paths(scheme: str, catalogue: Catalogue) -> bool:
    """True for the workload of the web, whose URLs have paths, and whose port is 80 by default."""
    workload = catalogue.workload(scheme)
    return workload is not None and any(each.name == PATH for each in workload.client_settings)
