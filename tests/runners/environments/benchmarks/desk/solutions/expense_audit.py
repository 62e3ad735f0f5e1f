"""expense-audit, solved by hand from the files."""

from decimal import Decimal

from tests.runners.environments.benchmarks.desk.solutions import another, csv_rows, save, sheet_rows, write_table

HEADER = ["expense_id", "employee", "category", "amount", "reason"]
ALTERNATIVES = {
    "ledger_file": ["ledger_final.csv", "expenses-2025-q3.csv", "books/q3 ledger.csv"],
    "start_date": ["2025-07-05", "2025-07-28"],
    "end_date": ["2025-09-02", "2025-09-28"],
    "department": ["Sales", "Engineering", "Support"],
    "receipt_minimum": ["20.00", "55.25", "75"],
    "receipt_code": ["R-10", "MR2"],
    "limit_code": ["X-44", "LIM9"],
    "report_file": ["findings_2025.csv", "out/audit.xlsx"],
    "sort_order": ["amount, smallest first", "expense_id"],
    "summary_file": ["out/notes.md", "summary_for_finance.md"],
    "seed": [1, 2, 3],
}


def _findings(folder, parameters, *, ledger=None, everyone=False, all_days=False, minimum=None):
    """Go through the ledger line by line, as a person would in a spreadsheet."""
    staff = sheet_rows(folder / "employees.xlsx", "Staff")
    people = {number: (name, department) for number, name, department in staff}
    policy = (folder / "travel_policy.md").read_text().split("| --- | --- |")[1]
    limits = {cells[1].strip(): float(cells[2]) for cells in (line.split("|") for line in policy.splitlines()[1:6])}
    found = []
    for line in csv_rows(folder / (ledger or parameters.ledger_file)):
        name, department = people[line["employee_id"]]
        amount = Decimal(line["amount_eur"])
        if not all_days and (line["date"] < parameters.start_date or line["date"] > parameters.end_date):
            continue
        if (department != parameters.department and not everyone) or amount < 0:
            continue
        row = [line["expense_id"], name, line["category"], amount]
        if line["receipt"] == "no" and amount >= Decimal(minimum or parameters.receipt_minimum):
            found.append([*row, parameters.receipt_code])
        if amount > limits[line["category"]]:
            found.append([*row, parameters.limit_code])
    return found


def _ordered(found, parameters):
    if parameters.sort_order == "expense_id":
        return sorted(found, key=lambda row: row[0])
    return sorted(found, key=lambda row: row[3], reverse="largest" in parameters.sort_order)


def _counts(found, parameters):
    return {code: sum(row[-1] == code for row in found) for code in (parameters.receipt_code, parameters.limit_code)}


def _total(found):
    return sum({row[0]: row[3] for row in found}.values(), Decimal(0))


def in_a_table(folder, parameters):
    """Exactly the requested columns; the summary is a table with plain numbers."""
    found = _ordered(_findings(folder, parameters), parameters)
    write_table(folder / parameters.report_file, [HEADER, *found])
    lines = ["| code | findings |", "| --- | --- |", *(f"| {c} | {n} |" for c, n in _counts(found, parameters).items())]
    save(folder / parameters.summary_file, "\n".join([*lines, "", f"Total: {_total(found):.2f} EUR", ""]))


def in_prose(folder, parameters):
    """Other column order, capitals in the header, an extra column, amounts as text; a summary in sentences."""
    found = _ordered(_findings(folder, parameters), parameters)
    rows = [[row[4], row[0], row[1].upper(), row[2], f"{row[3]:.2f} EUR", "Q3"] for row in found]
    header = ["Reason", "Expense ID", "Employee", "Category", "Amount", "Quarter"]
    write_table(folder / parameters.report_file, [header, *rows])
    counts = _counts(found, parameters)
    save(
        folder / parameters.summary_file,
        f"# Audit\r\n\r\nThere are **{counts[parameters.receipt_code]}** findings with `{parameters.receipt_code}`.\r\n"
        f"There are **{counts[parameters.limit_code]}** findings with `{parameters.limit_code}`.\r\n"
        f"They concern EUR {_total(found):,.2f} in all.\r\n",
    )


def uncorrected_ledger(folder, parameters):
    """Audits the ledger that the prompt does not name."""
    other = another(folder, "ledger*.csv", parameters.ledger_file)
    found = _ordered(_findings(folder, parameters, ledger=other), parameters)
    _hand_in(folder, parameters, found)


def every_day_and_department(folder, parameters):
    """Reads neither the period nor the department, and leaves the rows as they come."""
    _hand_in(folder, parameters, _findings(folder, parameters, everyone=True, all_days=True))


def swapped_codes_unsorted(folder, parameters):
    """Finds everything but mixes up the codes, forgets to sort, and writes identifiers for names."""
    swap = {parameters.receipt_code: parameters.limit_code, parameters.limit_code: parameters.receipt_code}
    found = [[row[0], "P210", row[2], row[3], swap[row[4]]] for row in _findings(folder, parameters)]
    _hand_in(folder, parameters, found)


def nothing_but_headers(folder, parameters):
    """Leaves an empty table and an empty summary."""
    write_table(folder / parameters.report_file, [HEADER])
    save(folder / parameters.summary_file, "# Audit\n")


def _hand_in(folder, parameters, found):
    write_table(folder / parameters.report_file, [HEADER, *found])
    lines = [f"{code}: {count}" for code, count in _counts(found, parameters).items()]
    save(folder / parameters.summary_file, "\n".join([*lines, f"{_total(found):.2f}"]))


CORRECT = (in_a_table, in_prose)
WRONG = (uncorrected_ledger, every_day_and_department, swapped_codes_unsorted, nothing_but_headers)
