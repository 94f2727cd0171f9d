"""Keep models by name in a directory, with the habits of the Hub: revisions, tags, cards, loading by name.

Unmodified transformers loads from it: `greffe hub env` prints the variables to set, `greffe hub serve` answers the
Hub's own clients over HTTP. NAME is organisation/name; @REV is a tag or a revision, by default the newest.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greffe.hub.store import LocalHub

_PUSH = """Make the files of a folder the newest revision of NAME, with a model card unless the folder has one.

Hidden files, __pycache__, checkpoint-N folders and training_args.bin are left out."""

_ENV = """Print the lines that point transformers and huggingface_hub at the hub: eval "$(greffe hub env)"

With --server, at a server that `greffe hub serve` runs there."""

_SERVE = """Serve the hub over HTTP to unmodified clients of the Hub (HF_ENDPOINT), with an index page for browsers.

It needs the packages starlette and uvicorn: pip install greffe[hub]. Reading is open to whoever reaches the address;
writing needs the token, which clients send when HF_TOKEN is set."""

_PLAIN = argparse.RawDescriptionHelpFormatter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")

    def add(name: str, summary: str, description: str | None = None) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=summary, description=description or summary, formatter_class=_PLAIN)
        action.add_argument(
            "--hub", metavar="PATH", help="the hub's directory; default: $GREFFE_HUB, else in the user's data directory"
        )
        return action

    push = add("push", "a folder as the newest revision of a model", _PUSH)
    push.add_argument("folder", metavar="DIR", help="a model folder")
    push.add_argument("name", metavar="NAME", help="organisation/name")
    push.add_argument("--tag", metavar="TAG", help="also name the revision, as in v1")
    push.add_argument("--message", metavar="TEXT", help="what changed")
    push.add_argument("--allow-pickle", action="store_true", help="take weights that run code when they are loaded")
    add("list", "every model, with its newest revision")
    log = add("log", "the revisions of a model, newest first")
    log.add_argument("name", metavar="NAME[@REV]")
    show = add("show", "one revision: files, hashes, message")
    show.add_argument("name", metavar="NAME[@REV]")
    pull = add("pull", "copy a revision into a new folder, checking every hash")
    pull.add_argument("name", metavar="NAME[@REV]")
    pull.add_argument("folder", metavar="DIR", help="new or empty")
    tag = add("tag", "name a revision")
    tag.add_argument("name", metavar="NAME[@REV]")
    tag.add_argument("tag", metavar="TAG", help="as in v1")
    tag.add_argument("--message", metavar="TEXT", default="", help="what the tag means")
    delete = add("delete", "remove a model with all of its revisions, or with @TAG only that tag")
    delete.add_argument("name", metavar="NAME[@TAG]")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    verify = add("verify", "compute every hash again and name what is damaged")
    verify.add_argument("name", metavar="NAME", nargs="?", help="one model; default: all")
    env = add("env", "the lines that point transformers at the hub", _ENV)
    env.add_argument("--server", metavar="URL", help="as in http://127.0.0.1:8421")
    _add_serve_arguments(add("serve", "the hub over HTTP, for unmodified clients and for browsers", _SERVE))


def _add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine only")
    parser.add_argument("--port", type=int, default=8421, help="default: 8421; 0 picks a free one")
    parser.add_argument(
        "--token", metavar="TEXT", help="what writers must send; default: $GREFFE_HUB_TOKEN, else a new one is printed"
    )
    parser.add_argument("--insecure-writes", action="store_true", help="let whoever reaches the address write")
    parser.add_argument("--allow-pickle", action="store_true", help="take weights that run code when they are loaded")


def run(options: argparse.Namespace) -> None:
    actions = {
        "push": _push,
        "list": _list,
        "log": _log,
        "show": _show,
        "pull": _pull,
        "tag": _tag,
        "delete": _delete,
        "verify": _verify,
        "env": _env,
        "serve": _serve,
    }
    actions[options.action](options)


def _hub(options: argparse.Namespace) -> LocalHub:
    from greffe.hub.store import LocalHub

    return LocalHub(options.hub)


def _push(options: argparse.Namespace) -> None:
    pushed = _hub(options).push(
        options.folder, options.name, tag=options.tag, message=options.message, allow_pickle=options.allow_pickle
    )
    revision = pushed.revision
    if pushed.left_out:
        print(f"left out: {', '.join(pushed.left_out)}")
    tagged = f", tagged {options.tag}" if options.tag else ""
    print(f"{options.name}@{revision.id[:12]}{tagged}: {len(revision.files)} files, {_size(revision.size)}")


def _list(options: argparse.Namespace) -> None:
    hub = _hub(options)
    rows = []
    for name in hub.list():
        try:
            newest, tags = hub.show(name), hub.repository(name).tags()
        except ValueError:
            rows.append((name, "damaged", "", "", f"see `greffe hub verify {name}`"))
            continue
        rows.append((name, newest.id[:12], _day(newest.date), _size(newest.size), ", ".join(tags)))
    if rows:
        _print_table([("model", "revision", "date", "size", "tags"), *rows])
    else:
        print(f"no models in {hub.path}; `greffe hub push DIR organisation/name` adds one")


def _log(options: argparse.Namespace) -> None:
    from greffe.hub.names import split_name

    hub, (name, revision) = _hub(options), split_name(options.name)
    names: dict[str, list[str]] = {}
    for reference, commit in hub.repository(name).references().items():
        names.setdefault(commit, []).append(reference)
    rows = [
        (entry.id[:12], _day(entry.date), _size(entry.size), ", ".join(names.get(entry.id, [])), entry.title)
        for entry in hub.log(name, revision)
    ]
    _print_table([("revision", "date", "size", "names", "message"), *rows])


def _show(options: argparse.Namespace) -> None:
    from greffe.hub.names import split_name

    hub, (name, revision) = _hub(options), split_name(options.name)
    found = hub.show(name, revision)
    names = [reference for reference, commit in hub.repository(name).references().items() if commit == found.id]
    print(f"{name}@{found.id}")
    print(f"date     {_day(found.date)}\nparent   {found.parent or 'none'}\nnames    {', '.join(names) or 'none'}")
    print(f"folder   {hub.snapshot(name, found.id)}\nmessage  {_printable(found.message)}\n")
    rows = [(path, f"{file.size:,}", file.sha256[:16]) for path, file in found.files.items()]
    _print_table([("file", "bytes", "sha256"), *rows])


def _pull(options: argparse.Namespace) -> None:
    from greffe.hub.names import split_name

    name, revision = split_name(options.name)
    found = _hub(options).pull(name, options.folder, revision)
    print(f"{name}@{found.id[:12]}: {len(found.files)} files, {_size(found.size)} in {options.folder}")


def _tag(options: argparse.Namespace) -> None:
    from greffe.hub.names import split_name

    name, revision = split_name(options.name)
    commit = _hub(options).tag(name, options.tag, revision, options.message)
    print(f"{name}@{commit[:12]} is now {name}@{options.tag}")


def _delete(options: argparse.Namespace) -> None:
    from greffe.hub.names import split_name

    hub, (name, revision) = _hub(options), split_name(options.name)
    if "@" in options.name:
        hub.repository(name).resolve(revision)
        _confirm(options, f"Forget the name {name}@{revision}?")
        hub.delete_reference(name, revision)
        print(f"{name}@{revision} is forgotten; the revision itself stays in the log")
        return
    revisions = hub.log(name)
    size = sum(blob.stat().st_size for blob in (hub.repository(name).folder / "blobs").iterdir())
    _confirm(options, f"Delete {name} with {len(revisions)} revisions, {_size(size)}? This cannot be undone.")
    hub.delete(name)
    print(f"{name} is deleted")


def _confirm(options: argparse.Namespace, question: str) -> None:
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise ValueError(f"expected somebody to answer {question!r}, found no terminal; pass --yes to go ahead")
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise ValueError("nothing was deleted")


def _verify(options: argparse.Namespace) -> None:
    hub = _hub(options)
    damage = hub.verify(options.name)
    for line in damage:
        print(line)
    if damage:
        raise ValueError(
            f"expected {hub.path} as it was pushed, found {len(damage)} things damaged; they are named above"
        )
    names = [options.name] if options.name else hub.list()
    print(f"{len(names)} models, {sum(len(hub.log(name)) for name in names)} revisions: all as they were pushed")


def _env(options: argparse.Namespace) -> None:
    import shlex

    if options.server:
        values = {"HF_ENDPOINT": options.server.rstrip("/"), "HF_HUB_OFFLINE": "0"}
    else:
        values = {"HF_HUB_CACHE": str(_hub(options).path), "HF_HUB_OFFLINE": "1"}
    for name, value in values.items():
        print(f"set {name}={value}" if os.name == "nt" else f"export {name}={shlex.quote(value)}")


def _serve(options: argparse.Namespace) -> None:
    from greffe.hub.serving import serve

    serve(
        _hub(options),
        host=options.host,
        port=options.port,
        token=options.token or os.environ.get("GREFFE_HUB_TOKEN"),
        insecure_writes=options.insecure_writes,
        allow_pickle=options.allow_pickle,
    )


def _print_table(rows: list[tuple[str, ...]]) -> None:
    rows = [tuple(map(_printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _printable(text: str) -> str:
    """Messages come from anybody: what would move a terminal's cursor is shown as an escape."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def _day(date: str) -> str:
    return date[:16].replace("T", " ")
