"""Playbooks: our additions to single tasks, namely variants, scripts of tool calls, and answers to replayed calls.

A playbook does not contain any text of a published prompt. Its templates cut passages out of the user's own rows:
``{3:9}`` is the characters 3 to 8 of the prompt that has the given SHA-256. Another prompt gets no variants.

An answer is composed from the values of the task's parameters, as the model knows or guesses them, and the result of
every live call in order. No expected value is stored here. If a result cannot be read, the answer says so.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from statistics import mean

from lhaw_record.recorder.events.values import Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.environments.benchmarks.mcp_atlas.facts import MONTHS
from lhaw_record.runners.environments.benchmarks.published import decoded_file
from lhaw_record.runners.environments.benchmarks.variants_file import Fill, VariantsFile, parameters_of, variant_of
from lhaw_record.runners.models.replay import Compose, ReferenceCall, ReferenceParameter

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_SLICE = re.compile(r"\{(\d+):(\d*)\}")


class Playbook(VariantsFile, frozen=True, kw_only=True):
    """What we wrote for one task. ``answer`` names one of ``ANSWERS``; ``calls`` is our own script, if any."""

    task: str
    prompt_sha256: str
    answer: str
    calls: tuple[ReferenceCall, ...] = ()

    def fits(self, prompt: str) -> bool:
        """Return whether the positions in this playbook apply to a prompt."""
        return hashlib.sha256(prompt.encode()).hexdigest() == self.prompt_sha256

    def parameters(self, prompt: str) -> tuple[ReferenceParameter, ...]:
        """Return the values in the prompt that the tool calls depend on."""
        return tuple(parameters_of(self.variants, cutter(prompt)))

    def variants_of(self, benchmark: str, prompt: str) -> tuple[Variant, ...]:
        """Cut the variants out of a prompt, which must be the one that this playbook was written for."""
        fill = cutter(prompt)
        return tuple(variant_of(each, benchmark, self.task, prompt, fill) for each in self.variants)


@lru_cache(maxsize=1)
def playbooks() -> dict[str, Playbook]:
    """Return the bundled playbooks by task id."""
    books = [decoded_file(file, Playbook) for file in sorted(data_path("mcp_atlas", "tasks").glob("*.toml"))]
    return {book.task: book for book in books}


def cutter(prompt: str) -> Fill:
    """Return a function that fills templates with passages of a prompt."""
    return lambda text: _SLICE.sub(lambda at: prompt[int(at[1]) : int(at[2] or len(prompt))], text)


def average_of_service(values: Mapping[str, str], results: Sequence[str]) -> str:
    """Report the average rating and the average age of clients for one service, from two calculator results."""
    service = f"the {values['service'].lower()} service" if values["service"] else "the service"
    rating, age = (_single_number(result) for result in results[3:5])
    first = (
        f"The average rating for {service} is {rating}." if rating else f"I could not work out a rating for {service}."
    )
    if not values["measure"]:
        return first
    second = f"The average age of the clients who got {service} is {age}."
    return f"{first}\n{second if age else 'I could not work out an average age.'}"


def compare_days(values: Mapping[str, str], results: Sequence[str]) -> str:
    """Report averages of two days and the changes between them, overall and by gender, from a program's output."""
    try:
        printed = json.loads(results[3])["output"]
    except (ValueError, KeyError, TypeError):
        return f"The program gave no figures: {results[3].strip()[:300]}"
    numbers = re.findall(r"-?\d+(?:\.\d+)?|nan", printed)
    if len(numbers) != 5:
        return f"The program printed: {printed.strip()[:300]}"
    first, second, change, women, men = numbers
    day, drink = values["day"], values["drink"]
    years = "in 2022 to 2023"
    who = f"people who ordered {drink} {years}"
    larger = printed.rpartition(":")[2].strip()
    gap = {"Female": "Women", "Male": "Men"}.get(larger, larger)
    return "\n".join(
        [
            f"The {day} average total price per entry for {who} was ${first}.",
            f"The Wednesday average total price per entry for {who} was ${second}.",
            f"The percentage change from Wednesday to {day} for {who} was {change}%.",
            f"The percentage change from Wednesday to {day} for women who ordered {drink} {years} was {women}%.",
            f"The percentage change from Wednesday to {day} for men who ordered {drink} {years} was {men}%.",
            f"{gap} who ordered {drink} showed the larger {day} vs. Wednesday gap in percentage terms.",
        ]
    )


def profit_against_purchase(values: Mapping[str, str], results: Sequence[str]) -> str:
    """Report the profit of one week and the amount spent on one asset in that week."""
    week, asset = values["week"], values["asset"]
    weeks = [row for row in _rows(results[4]) if row and row[0].strip().lower() == week.lower()]
    if not weeks or len(weeks[0]) < 4 or (profit := _money(weeks[0][-1])) is None:
        return f"I found no profit for {week or 'the week'} in the file that I read."
    start, end = (datetime.strptime(cell.strip(), "%d/%m/%Y").date() for cell in weeks[0][1:3])  # noqa: DTZ007
    said = [
        f"{week} took place between {weeks[0][1].strip()} and {weeks[0][2].strip()}.",
        f"In {week.lower()} the profit from the pet care business was ${profit:,.2f}.",
    ]
    bought = [
        float(row["Total (inclusive of fees and/or spread)"])
        for row in csv.DictReader(io.StringIO(results[7]))
        if row["Asset"] == asset and "Buy" in row["Transaction Type"]
        if start <= date.fromisoformat(row["Timestamp"][:10]) <= end
    ]
    name = "Bitcoin" if asset == "BTC" else asset
    if not bought:
        return "\n".join([*said, f"I found no purchase of {name} in {week.lower()}."])
    balance = profit - sum(bought)
    verdict = "enough" if balance >= 0 else "too little"
    return "\n".join(
        [
            *said,
            f"In {week.lower()}, ${sum(bought):,.2f} worth of {name} was purchased; the profit was {verdict} for it.",
            f"The difference between the profit and the {name} purchase in {week.lower()} was ${balance:,.2f}.",
        ]
    )


def crimes_in_period(values: Mapping[str, str], results: Sequence[str]) -> str:
    """Report the share of one kind of crime that happened online, and the mean ages, within a period of months."""
    crime, period = values["crime"], _months(values["period"])
    lines = results[5][results[5].find("Crime_ID") :]
    rows = [
        row
        for row in csv.DictReader(io.StringIO(lines))
        if (row.get("Crime_Type") or "").lower() == crime.lower()
        if not period or period[0] <= row["Date_Reported"][:7] <= period[1]
    ]
    if not rows:
        return f"I found no records of {crime.lower() or 'that kind of crime'} in Crime_records.csv."
    online = 100 * sum(row["Location"] == "Online" for row in rows) / len(rows)
    suspects, victims = (mean(float(row[column]) for row in rows) for column in ("Suspect_Age", "Victim_Age"))
    kind = crime.lower()
    return "\n".join(
        [
            f"According to Crime_records.csv there are {len(rows)} matching records.",
            f"{online:.2f}% of the {kind} crimes occurred online in the filtered records.",
            f"The average age of the {kind} suspects was {suspects:.2f} years for the filtered records.",
            f"The average age of the {kind} victims was {victims:.2f} years for the filtered records.",
        ]
    )


ANSWERS: dict[str, Compose] = {
    answer.__name__: answer for answer in (average_of_service, compare_days, profit_against_purchase, crimes_in_period)
}


def _single_number(text: str) -> str | None:
    """Return a result that is a single number, or None for other text, such as an error message."""
    return text.strip() if _NUMBER.fullmatch(text.strip()) else None


def _rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def _money(cell: str) -> float | None:
    found = _NUMBER.search(cell.replace(",", ""))
    return float(found.group()) if found else None


def _months(period: str) -> tuple[str, str] | None:
    """Return the first and last month of a period such as "may 2014 to may 2021" as ``2014-05`` and ``2021-05``.

    Returns None if the text does not name a month and a year.
    """
    found = re.findall(rf"({'|'.join(MONTHS)})\s+(\d{{4}})", period.lower())
    months = [f"{year}-{MONTHS.index(month) + 1:02d}" for month, year in found]
    return (months[0], months[-1]) if months else None
