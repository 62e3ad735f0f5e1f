"""A store opened in Python: its views as data frames, its tables with notes, its figures and its papers.

with lhaw_record.open("stores/demo") as store:
    store.trials.df()                                  # pandas; .pl() Polars, .arrow() Arrow, .rows() dictionaries
    store.sql("from questions where is_answered").df()
    store.table("overall", agent=["balanced"])         # a notebook shows it, with its notes
    store.figure("voi")
    store.paper("lhaw").write("paper")
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lhaw_record.analytics.errors import AnalyticsError
from lhaw_record.analytics.figures.catalogue import draw, spec_of
from lhaw_record.analytics.figures.drawing import read, to_bytes
from lhaw_record.analytics.paper import Paper, make, spec_and_text
from lhaw_record.analytics.tables.filters import Filter, known_filter, without_lone_pools
from lhaw_record.analytics.tables.render import cell, to_text
from lhaw_record.analytics.tables.tables import Row, Table, tables
from lhaw_record.analytics.views import store as stores
from lhaw_record.analytics.views.headers import failed_query, headers
from lhaw_record.analytics.views.parameters import Setting
from lhaw_record.analytics.views.rows import distinct
from lhaw_record.recorder.processes import allow_pandas
from lhaw_record.recorder.wording import did_you_mean

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

_SHOWN_ROWS = 20
_LAYERS = ("staging", "intermediate", "marts", "tables")


class OpenStore:
    """A store as it was when it was opened. Close it, or open it in a ``with`` statement.

    Each view of ``lhaw-record sql STORE -c .views`` is an attribute: ``store.trials``.

    Args:
        path: The store's directory.
        parameters: Analysis parameters that differ from their defaults.

    Raises:
        AnalyticsError: A parameter does not exist or does not allow the given value.
        StoreError: There is no store.
    """

    def __init__(self, path: Path, parameters: Mapping[str, Setting]) -> None:
        self.path = path
        self.parameters = dict(parameters)
        self.connection = stores.open(path, parameters=parameters)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    @property
    def views(self) -> list[str]:
        """The names of the views."""
        return ["events", *(each.view for each in headers() if each.layer in _LAYERS)]

    def __getattr__(self, name: str) -> "View":
        if name.startswith("_") or "connection" not in self.__dict__:
            raise AttributeError(name)
        known = self.views
        if name not in known:
            raise AttributeError(f"{self.path} has no view {name!r}{did_you_mean(name, known)}; .views lists them")
        return self.sql(f'from "{name}"')

    def __repr__(self) -> str:
        return f"lhaw_record.open({str(self.path)!r})"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.views]

    def sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> "View":
        """Return the rows of a query, with values for its ``?`` or ``$name`` placeholders.

        Raises:
            AnalyticsError: DuckDB rejects the query, or it returns no rows.
        """
        with _translated():
            relation = self.connection.sql(query, params=parameters)
        if relation is None:
            raise AnalyticsError("this statement returns no rows; .connection.execute runs it")
        return View(relation)

    def table(
        self,
        name: str,
        *,
        agent: str | Sequence[str] = (),
        condition: str | Sequence[str] = (),
        measure: str | Sequence[str] = (),
        benchmark: str | Sequence[str] = (),
    ) -> "OpenTable":
        """Compute a reported table, filtered by agents, conditions, measures and benchmarks.

        Raises:
            UnknownName: There is no such table, or no row has a value.
        """
        with _translated():
            (one,) = tables(self.connection, [name])
        wanted = _wanted(agent=agent, condition=condition, measure=measure, benchmark=benchmark)
        return OpenTable(known_filter(wanted, one.rows).table(one))

    def figure(self, name: str, *, agent: str | Sequence[str] = (), benchmark: str | Sequence[str] = ()) -> "Figure":
        """Draw a figure, filtered by agents and benchmarks.

        Raises:
            UnknownName: There is no such figure, or no row has a value.
        """
        with _translated():
            rows = [row for view in spec_of(name).reads for row in read(self.connection, view)]
            shown = known_filter(_wanted(agent=agent, benchmark=benchmark), rows)
            return Figure(to_bytes(draw(self.connection, name, shown.rows), "svg").decode())

    def paper(
        self,
        spec: str | Path,
        *,
        agent: str | Sequence[str] = (),
        condition: str | Sequence[str] = (),
        measure: str | Sequence[str] = (),
        benchmark: str | Sequence[str] = (),
    ) -> Paper:
        """Make the tables and figures of a paper from a file or a preset. This reads the store again.

        Raises:
            AnalyticsError: The file cannot be read or does not fit the store.
        """
        chosen, _ = spec_and_text(spec)
        only = Filter(_wanted(agent=agent, condition=condition, measure=measure, benchmark=benchmark))
        return make(self.path, chosen, settings=self.parameters, only=only)


class View:
    """The rows of a view or query, computed when they are read. A notebook shows the first rows."""

    def __init__(self, relation: "duckdb.DuckDBPyRelation") -> None:
        self._relation = relation

    @property
    def columns(self) -> list[str]:
        """The column names. Repeated names get a number."""
        with _translated():
            return distinct(self._relation.columns)

    def df(self) -> "pd.DataFrame":
        """Return a pandas data frame."""
        allow_pandas()
        with _translated():
            return self._relation.df()

    def pl(self) -> "pl.DataFrame":
        """Return a Polars data frame.

        Raises:
            AnalyticsError: Polars is not installed.
        """
        _check_polars()
        with _translated():
            frame: pl.DataFrame = self._relation.pl()
        return frame

    def arrow(self) -> "pa.Table":
        """Return an Arrow table."""
        with _translated():
            return self._relation.to_arrow_table()

    def rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per row."""
        columns = self.columns
        with _translated():
            return [dict(zip(columns, row, strict=True)) for row in self._relation.fetchall()]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __len__(self) -> int:
        with _translated():
            (count,) = self._relation.aggregate("count(*)").fetchall()[0]
        return int(count)

    def __repr__(self) -> str:
        with _translated():
            return str(self._relation.limit(_SHOWN_ROWS))

    def _repr_html_(self) -> str:
        count = len(self)
        more = f", the first {_SHOWN_ROWS} are shown" if count > _SHOWN_ROWS else ""
        with _translated():
            found = self._relation.limit(_SHOWN_ROWS).fetchall()
        return f"{_html(self.columns, found)}<small>{count:,} rows{more}</small>"


class OpenTable:
    """A reported table with its notes. A notebook shows it."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the table."""
        return self.table.notes

    def rows(self) -> list[Row]:
        """Return one dictionary per row."""
        return [dict(row) for row in self.table.rows]

    def arrow(self) -> "pa.Table":
        """Return an Arrow table."""
        import pyarrow as pa

        if not self.table.rows:
            return pa.table({name: pa.nulls(0) for name in self.table.columns})
        return pa.Table.from_pylist(self.rows())

    def df(self) -> "pd.DataFrame":
        """Return a pandas data frame."""
        allow_pandas()
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=list(self.table.columns))

    def pl(self) -> "pl.DataFrame":
        """Return a Polars data frame.

        Raises:
            AnalyticsError: Polars is not installed.
        """
        _check_polars()
        import polars as pl

        return pl.DataFrame(self.rows(), schema=list(self.table.columns), infer_schema_length=None)

    def __repr__(self) -> str:
        return to_text(self.table)

    def _repr_html_(self) -> str:
        table = self.table
        if "value" in table.columns:
            columns = [*table.keys, "value", *table.shown, "n_units", "n_trials"]
            columns = [name for name in columns if name == "value" or name in table.columns]
            shown = without_lone_pools(table.rows, table.keys)
            rows = [[cell(row) if name == "value" else row[name] for name in columns] for row in shown]
        else:
            columns, rows = list(table.columns), [list(row.values()) for row in table.rows]
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
        return f"<b>{html.escape(table.title)}</b>{_html(columns, rows)}<ul>{notes}</ul>"


class Figure:
    """A figure as SVG. A notebook shows it."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg


def _check_polars() -> None:
    if find_spec("polars") is None:
        raise AnalyticsError("Polars is not installed: pip install polars, or take .df() or .arrow()")


@contextmanager
def _translated() -> Iterator[None]:
    """Convert DuckDB errors to errors of this package."""
    import duckdb

    try:
        yield
    except duckdb.ConnectionException as error:
        raise AnalyticsError("the store is closed; open it again") from error
    except duckdb.Error as error:
        raise failed_query(error) from error


def _wanted(**values: str | Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the wanted values by key. A string is one value."""
    chosen = {key: (each,) if isinstance(each, str) else tuple(each) for key, each in values.items()}
    return {key: each for key, each in chosen.items() if each}


def _html(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return an HTML table with inline cell styles, because notebook style sheets have rules for cells."""
    is_number = [any(isinstance(value, int | float) for value in column) for column in zip(*rows, strict=True)]
    styles = [f"white-space: nowrap; text-align: {'right' if each else 'left'}" for each in is_number]
    styles = styles or ["text-align: left"] * len(columns)
    head = "".join(f'<th style="{style}">{html.escape(name)}</th>' for name, style in zip(columns, styles, strict=True))
    lines = [
        "".join(
            f'<td style="{style}">{html.escape(_short(value))}</td>' for value, style in zip(row, styles, strict=True)
        )
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _short(value: object) -> str:
    text = "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
