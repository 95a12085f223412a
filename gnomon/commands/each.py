"""One command for several jobs or workflows: each gets its result, whatever became of the others."""

from collections.abc import Callable, Sequence
from typing import Any

import typer

from gnomon.commands.session import Session, error_document, tell
from gnomon.errors import CredentialsError, GnomonApiError, GnomonError, UnreachableError
from gnomon.lookup import Finder


def for_each(
    session: Session,
    given: Sequence[str],
    finder: Finder,
    act: Callable[[str], Any],
    show: Callable[[Any], None],
) -> None:
    """Do it for each id, beginning of an id, or name. `act` gives the document, which `show` shows to people.

    With one, an error is the command's. With several each error is told, JSON has it in the place of the document, and
    the program ends with 1. One that is named twice is done once. What concerns all of them, as a refused token does,
    is not tried again for the rest.
    """
    if len(given) == 1:
        show_one(session, act(finder.id_of(given[0])), show)
        return
    results: list[dict[str, Any]] = []
    done: set[str] = set()
    failures: list[GnomonError] = []
    for name in given:
        try:
            if failures and _concerns_all(failures[-1]):
                raise failures[-1]
            found = finder.id_of(name)
            if found not in done:
                done.add(found)
                results.append(act(found))
                _show(session, results[-1], show)
        except GnomonError as error:
            failures.append(error)
            results.append({"id": name, "error": error_document(error)})
            session.say(f"{name}: failed.")
            tell(error, session.output)
    if session.is_json:
        session.show({"data": results}, "")
    if failures:
        raise typer.Exit(1)


def show_one(session: Session, document: Any, show: Callable[[Any], None]) -> None:
    """The document with `--output json`, else as `show` shows it."""
    if session.is_json:
        session.show(document, "")
    else:
        show(document)


def _show(session: Session, document: Any, show: Callable[[Any], None]) -> None:
    if not session.is_json:
        show(document)


def _concerns_all(error: GnomonError) -> bool:
    is_refused = isinstance(error, GnomonApiError) and error.status == 401
    return is_refused or isinstance(error, UnreachableError | CredentialsError)
