"""``python -m roadworthy`` is the ``roadworthy`` command."""

from roadworthy.cli import main

main()
