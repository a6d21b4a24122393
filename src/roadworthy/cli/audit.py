"""``roadworthy audit``: can the numbers be trusted? Each audit is a verb of its own."""

from __future__ import annotations

import typer

from roadworthy.cli import audit_agreement, audit_imputers, audit_labels, audit_self

app = typer.Typer(no_args_is_help=True, help="Can the numbers be trusted? Audits of fills, rankings and strategies.")
app.command("imputers")(audit_imputers.imputers)
app.command("agreement")(audit_agreement.agreement)
app.command("labels")(audit_labels.labels)
app.command("self")(audit_self.self_test)
