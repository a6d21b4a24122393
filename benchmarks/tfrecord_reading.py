"""Reading 10,000 small records, as they are and decoded, plain and gzip, against the package tfrecord.

Reference: ``tfrecord.tfrecord_iterator`` and ``tfrecord.tfrecord_loader``, which verify no checksum; this package
verifies both of every record. Records hold an image of about 1 KB, a label and a text.

    python benchmarks/tfrecord_reading.py --save
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from _common import Record, alternate, environment, parser
from tfrecord.reader import tfrecord_iterator, tfrecord_loader

from roadworthy.tfrecord import decode, encode, read_records, record_writer


def write_records(path: Path, n: int, *, compress: bool) -> None:
    generator = np.random.default_rng(0)
    with record_writer(path, compress=compress) as write:
        for label in range(n):
            image = generator.bytes(int(generator.integers(800, 1200)))
            features = {"image/encoded": image, "image/class/label": label % 10, "image/class/text": b"class"}
            write(encode(features))


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--n", type=int, default=10_000, help="records")
    args = options.parse_args()
    record = Record("tfrecord_reading")
    record.line(environment("roadworthy", "tfrecord", "protobuf", "google-crc32c"))
    record.line(f"medians of {args.rounds} rounds; ours with checksums, the reference without")
    with tempfile.TemporaryDirectory() as folder:
        for compress in (False, True):
            path, kind = Path(folder) / f"records{compress:d}", "gzip" if compress else None
            write_records(path, args.n, compress=compress)
            ours, theirs = (
                sum(map(len, read_records(path))),
                sum(map(len, tfrecord_iterator(str(path), None, None, kind))),
            )
            assert ours == theirs, "the two read different bytes"
            seconds = alternate(
                {
                    "ours": lambda path=path: sum(1 for _ in read_records(path)),
                    "theirs": lambda path=path, kind=kind: sum(
                        1 for _ in tfrecord_iterator(str(path), None, None, kind)
                    ),
                    "ours decoded": lambda path=path: sum(1 for _ in map(decode, read_records(path))),
                    "theirs decoded": lambda path=path, kind=kind: sum(
                        1 for _ in tfrecord_loader(str(path), None, compression_type=kind)
                    ),
                },
                rounds=args.rounds,
            )
            for what in ("", " decoded"):
                record.ratio(
                    f"{'gzip' if compress else 'plain'} records{what}",
                    1000 * seconds[f"ours{what}"] / args.n,
                    1000 * seconds[f"theirs{what}"] / args.n,
                    n=args.n,
                    unit="1,000 records",
                )
    record.line("reach: 1.0 x, with checksums on")
    if args.save:
        print(record.save())


if __name__ == "__main__":
    main()
