"""The command's entrance: verbs, and errors as one line."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings

import typer

import roadworthy
from roadworthy.cli import (
    attribute,
    audit,
    compare,
    data,
    demo,
    doctor,
    eval,
    features,
    labelfree,
    rank_k,
    report,
    road,
    roar,
    run,
    runs,
    sources,
)
from roadworthy.cli.console import err, say
from roadworthy.errors import RoadworthyError
from roadworthy.markup import clean

INTERRUPTED = 130
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)

app = typer.Typer(
    name="roadworthy",
    help="Which explanation of a classifier can be believed, and how far can its predictions be where there are no "
    "labels?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("attribute")(attribute.attribute)
app.command("road")(road.road)
app.command("roar")(roar.roar)
app.command("run")(run.run)
app.command("eval")(eval.evaluate)
app.command("labelfree")(labelfree.labelfree)
app.command("features")(features.features)
app.command("rank-k")(rank_k.rank_k)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("runs")(runs.runs)
app.add_typer(audit.app, name="audit")
app.add_typer(data.app, name="data")
app.command("sources")(sources.sources)
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"roadworthy {roadworthy.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error; may stand anywhere."),
) -> None:
    """Hold the options that stand before a verb; the docstring of the group is the help above."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit: 0 done, 1 jobs of a sweep or the program failed, 2 a user error, 130 interrupted.

    Args:
        arguments: command line without the program's name; ``sys.argv`` by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    rest = [argument for argument in given if argument != "--debug"]
    warnings.showwarning = _show_warning
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the locale cannot show is no reason to fail
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(rest or ["--help"], prog_name="roadworthy", standalone_mode=False) or 0
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, for instance head, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if debug:
            raise
        code = _explain(error)
    if code == INTERRUPTED:
        say("Stopped. The same command goes on from here.")
    raise SystemExit(code)


def _explain(error: Exception) -> int:
    """Print one line for an error and return the exit status."""
    usage = getattr(error, "format_message", None)  # the command line itself was wrong
    if usage is not None and not usage():  # a group without a verb: its help was printed
        return 2
    if usage is not None:
        _one_line("error", usage(), f" ({_usage_hint(usage())}--help lists what is known)")
    elif isinstance(error, OSError) and error.errno in _NO_ROOM:
        _one_line("error", error, "; make room and give the same command again: what is finished is kept")
    elif isinstance(error, OSError) and error.errno in _NO_RIGHT:
        _one_line("error", error, "; see to the rights there, or name another folder with --out")
    elif isinstance(error, (RoadworthyError, OSError)):
        _one_line("error", error)
    elif isinstance(error, MemoryError) or "out of memory" in str(error):
        _one_line("out of memory", error, "; try a smaller --max-batch")
    else:
        _one_line(f"unexpected {type(error).__name__}", error, " (--debug shows where)")
        return 1
    return 2


def _usage_hint(message: str) -> str:
    if "unexpected extra argument" not in message:
        return ""
    return (
        "every value follows its option, as in --data folder:PATH, and lists have commas, as in --methods ig,grad; "
    )


def _one_line(kind: str, error: BaseException | str, tail: str = "") -> None:
    text = " ".join(str(error).split()) or type(error).__name__
    err.print(clean(f"{kind}: {text}{tail}"), style="red", markup=False, highlight=False, soft_wrap=True)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    err.print(clean(f"warning: {message}"), style="yellow", markup=False, highlight=False, soft_wrap=True)
