"""``roadworthy data``: what is done to data sets; ``convert`` from one format to another."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from roadworthy.cli.claim import claimed
from roadworthy.cli.console import bar, out, print_json
from roadworthy.cli.options import ChannelsOption, JsonOption, SeedOption, SizeOption, parse_size

app = typer.Typer(help="Convert data sets.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keep ``convert`` a word of its own although it is the only one."""


@app.command("convert")
def convert(
    source: Annotated[str, typer.Argument(help="Data set to read: folder:PATH, tfrecord:GLOB, digits, ...")],
    destination: Annotated[
        str, typer.Argument(help="What to write: folder:PATH, parquet:PATH, tfrecord:PATH (folders) or hdf5:PATH.")
    ],
    size: SizeOption = None,
    channels: ChannelsOption = None,
    seed: SeedOption = 0,
    test_share: Annotated[
        float, typer.Option("--test-share", help="Share of the test split, where the source has none.")
    ] = 0.2,
    per_part: Annotated[
        int, typer.Option("--per-part", min=1, help="Samples in a shard, a Parquet file or a resumable part.")
    ] = 1024,
    label_offset: Annotated[
        int, typer.Option("--label-offset", min=0, max=1, help="tfrecord: label of the first class, 0 or 1.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Write a data set in another format, keeping ids, labels, classes and splits; stopped, the same command goes on.

    The bytes of image files are copied as they are between folders, Parquet and TFRecord.
    """
    from roadworthy.data import convert as convert_data
    from roadworthy.data.convert import destination_of

    _, place = destination_of(destination)
    with claimed(place.parent, place.name), bar("samples") as progress:
        done = convert_data(
            source,
            destination,
            size=parse_size(size),
            channels=channels,
            seed=seed,
            test_share=test_share,
            per_part=per_part,
            label_offset=label_offset,
            progress=progress,
        )
    if as_json:
        print_json(asdict(done))
    else:
        counts = ", ".join(f"{split} {n}" for split, n in done.counts.items())
        out.print(f"{done.spec}: {counts}; {done.written} parts written, {done.kept} were there", markup=False)
